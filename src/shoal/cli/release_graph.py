"""`shoal release-graph`: graphs that may be given out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli._console import show_release
from shoal.cli._options import AsJson, Charged


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("release-graph")(release_graph)


def release_graph(
    edges: Annotated[Path, typer.Argument(help="Edge list: two columns, an edge a row.")],
    epsilon: Annotated[float, typer.Option(help="What to spend, for any k edges jointly.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many edges go together.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Edge list to write.")],
    reading: Annotated[
        str, typer.Option(help="edges: k correlated edges; vertex: k the most edges at a vertex.")
    ] = "edges",
    vertices: Annotated[
        Path | None,
        typer.Option(help="File whose first column lists all public vertices, also those without an edge."),
    ] = None,
    labelling: Annotated[
        str, typer.Option(help="degree (ours), or greedy as its authors describe.")
    ] = "degree",
    quadtree: Annotated[
        str, typer.Option(help="noisy (ours), or exponential as its authors describe.")
    ] = "noisy",
    name: Annotated[
        str | None,
        typer.Option("--id", help="Names the data set in the ledger; the file's name if left out."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Total epsilon; this release alone if left out.")
    ] = None,
    analyst: Charged = "me",
    ledger: Annotated[
        str | None, typer.Option(help="Ledger file or URL; beside the edges if left out.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="HTML for the owner: the matrix before and after, and errors.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Release a graph whose edges may depend on each other, and state its guarantee.

    Example: shoal release-graph edges.csv --epsilon 2 --k 3 -o public.csv
    """
    from shoal import release as releases
    from shoal.io import check_apart, check_folder, check_writable, read_table, write_table, write_text

    check_apart({"--output": output, "--pictures": pictures}, [edges, vertices])
    check_writable(output)
    if pictures is not None:
        check_folder(pictures)
    listed = None if vertices is None else read_table(vertices).to_series(0).to_numpy()
    out = releases.release_graph(
        read_table(edges),
        k,
        epsilon,
        reading=reading,
        labelling=labelling,
        quadtree=quadtree,
        vertices=listed,
        dataset=name or edges.stem,
        budget=budget,
        analyst=analyst,
        ledger=ledger or str(edges.with_suffix(".ledger.db")),
    )
    write_table(out.frame, output)
    figures = releases.graph_figures(out)
    if pictures is not None:
        write_text(releases.graph_page(out, figures), pictures)
    facts = {
        "stamp": out.guarantee,
        "epsilon": out.epsilon,
        "remaining": out.remaining,
        "k": k,
        "reading": reading,
        "n_vertices": out.graph.n,
        "levels": out.height,
        **figures.to_dict(),
        "notes": [*out.notes, "Errors are computed from the private graph: for the owner only."],
    }
    show_release(facts, as_json)
