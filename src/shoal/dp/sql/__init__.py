"""SQL text and Python expressions to one query value; the table is not known here."""
