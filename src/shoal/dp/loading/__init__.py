"""Private tables read row by row by public rules, from files, frames, databases and Spark."""
