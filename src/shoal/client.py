"""A client of the server: the same answers as a session of one's own."""

from __future__ import annotations

import contextlib
import ssl
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from shoal import errors
from shoal.dp.answering.answer import Answer
from shoal.dp.heuristic import Reproduction
from shoal.dp.workload import WorkloadAnswer
from shoal.errors import InputError, MissingExtraError, ShoalError
from shoal.typing import Json

try:
    import httpx
except ImportError:
    raise MissingExtraError("httpx", "server") from None

if TYPE_CHECKING:
    import polars as pl

_NO_SERVER = "What answered is not a Shoal server."


class Client:
    """Asks a Shoal server.

    Parameters
    ----------
    url : str
        Where the server is, such as ``https://shoal.example.org``.
    token : str
        As the owner gave it.
    dataset : str, optional
        Which data set to ask; may stay open if the server has only one.
    timeout : float, default 60
        Seconds to wait.
    verify : bool, path or ssl.SSLContext, default True
        Whom to trust: the system's authorities, or the certificates of a file.
    retries : int, default 2
        How often to try again when the server cannot be reached, breaks off or asks to wait. Each question goes with a key
        of its own, under which the server answers and charges it once.

    Examples
    --------
    >>> from shoal import Client
    >>> with Client("http://127.0.0.1:8471", "shoal-...") as client:  # doctest: +SKIP
    ...     client.ask("SELECT COUNT(*) FROM t WHERE age >= 40", epsilon=0.1).value
    412
    """

    def __init__(
        self,
        url: str,
        token: str,
        dataset: str | None = None,
        *,
        timeout: float = 60.0,
        verify: bool | str | Path | ssl.SSLContext = True,
        retries: int = 2,
    ) -> None:
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise InputError("A token must be the text that the owner gave.")
        headers, trusted = {"authorization": f"Bearer {token}"}, _trusted(verify)
        try:
            self._http = httpx.Client(
                base_url=url.rstrip("/") + "/api/v1",
                headers=headers,
                timeout=timeout,
                verify=trusted,
            )
        except (httpx.InvalidURL, ValueError):
            raise InputError(f"A server's address must be a URL. Got {url!r}.") from None
        self._dataset, self._retries = dataset, retries

    def ask(
        self,
        sql: str,
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        error: float | None = None,
        dataset: str | None = None,
        mode: str | None = None,
    ) -> Answer:
        """One private answer, charged to your budget: for an epsilon, a rho (of a data set counted in it), or a wanted error."""
        if mode == "heuristic":
            raise InputError("Mode 'heuristic' gives no private answers: ask for it with 'reproduce'.")
        return Answer.from_dict(self._post("ask", sql, epsilon, dataset, mode, error, rho))

    def reproduce(self, sql: str, noise_parameter: float, *, dataset: str | None = None) -> Reproduction:
        """What the dissertation's mechanism gives, where the owner offers it: nothing is guaranteed."""
        return Reproduction.from_dict(self._post("ask", sql, noise_parameter, dataset, "heuristic"))

    def cost(
        self,
        sql: str,
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        error: float | None = None,
        dataset: str | None = None,
        mode: str | None = None,
    ) -> Json:
        """What an answer would cost, how exact it would be, and how it is split; free."""
        found: Json = self._post("cost", sql, epsilon, dataset, mode, error, rho)
        return found

    def workload(
        self,
        queries: Sequence[str],
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        dataset: str | None = None,
        mode: str | None = None,
    ) -> WorkloadAnswer:
        """Counting queries answered together, for one charge (`Session.workload`)."""
        return WorkloadAnswer.from_dict(self._post_all("workload", queries, epsilon, rho, dataset, mode))

    def workload_cost(
        self,
        queries: Sequence[str],
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        dataset: str | None = None,
        mode: str | None = None,
    ) -> Json:
        """What queries asked together would cost, once for all, and the error to expect of each; free."""
        found: Json = self._post_all("workload/cost", queries, epsilon, rho, dataset, mode)
        return found

    def stream(
        self,
        name: str,
        sql: str,
        periods: int,
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        dataset: str | None = None,
        mode: str | None = None,
    ) -> Json:
        """Open a stream for one charge now; the same words open it again, with the totals told so far, for nothing."""
        amount = {"epsilon": epsilon} if rho is None else {"rho": rho}
        wanted = {"name": name, "sql": sql, "periods": periods, "mode": mode, **amount}
        found: Json = self._send("POST", f"{self._at(dataset)}/streams", json=wanted)
        return found

    def streams(self, dataset: str | None = None) -> list[Json]:
        """The streams that you paid for, with all totals told so far; everybody's for an owner."""
        found: list[Json] = self._send("GET", f"{self._at(dataset)}/streams")
        return found

    def add_period(
        self, stream: str, table: str | Path, period: int | None = None, *, dataset: str | None = None
    ) -> Json:
        """For owners: send the rows of a stream's next period, a file of one's own. Another `period` than the next is refused."""
        path, fields = Path(table), {} if period is None else {"period": str(period)}
        where = f"{self._at(dataset)}/streams/{quote(stream, safe='')}/periods"
        with path.open("rb") as file:
            sent = self._send("POST", where, files={"table": (path.name, file)}, data=fields)
        found: Json = sent
        return found

    def release(
        self,
        epsilon: float,
        *,
        columns: Sequence[str] | None = None,
        marginals: int | str | Sequence[Sequence[str]] = "chosen",
        bins: Any = None,
        dataset: str | None = None,
    ) -> Json:
        """Buy a whole table, wait until it is made, and say what it covers; its `entry` names it for `rows` and `ask_release`.

        An interrupt while it waits for its turn cancels it, and nothing is spent; a table that is charged is made and kept.
        """
        at = f"{self._at(dataset)}/releases"
        wanted = {"epsilon": epsilon, "columns": columns, "marginals": marginals, "bins": bins}
        key = {"idempotency-key": str(uuid.uuid4())}
        job = self._send("POST", f"{at}/jobs", json=wanted, headers=key)
        try:
            while job["state"] == "running":
                time.sleep(0.2)
                job = self._send("GET", f"{at}/jobs/{job['job']}")
        except KeyboardInterrupt:
            with contextlib.suppress(ShoalError):  # it may be charged by now
                self._send(
                    "POST", f"{at}/jobs/{job['job']}/cancel", headers={"idempotency-key": str(uuid.uuid4())}
                )
            raise
        if job["state"] != "done":
            raise ShoalError(job["error"])
        return next(each for each in self.releases(dataset) if each["entry"] == job["entry"])

    def releases(self, dataset: str | None = None) -> list[Json]:
        """The whole tables that you bought, and what each covers."""
        found: list[Json] = self._send("GET", f"{self._at(dataset)}/releases")
        return found

    def rows(self, entry: str, count: int | None = None, *, dataset: str | None = None) -> pl.DataFrame:
        """Rows of a table that you bought, as many as were counted if left open; free."""
        import polars as pl

        where = f"{self._at(dataset)}/releases/{quote(entry, safe='')}/rows"
        text = self._sent("GET", where, params={} if count is None else {"rows": count}).text
        return pl.read_csv(text.encode(), infer_schema_length=None)

    def ask_release(self, entry: str, sql: str, *, dataset: str | None = None) -> Answer:
        """An answer from a table that you bought, for nothing."""
        where = f"{self._at(dataset)}/releases/{quote(entry, safe='')}/ask"
        return Answer.from_dict(self._send("POST", where, json={"sql": sql}))

    def _post_all(
        self,
        what: str,
        queries: Sequence[str],
        epsilon: float | None,
        rho: float | None,
        dataset: str | None,
        mode: str | None,
    ) -> Any:
        amount = {"epsilon": epsilon} if rho is None else {"rho": rho}
        wanted = {"queries": list(queries), "mode": mode, **amount}
        return self._send("POST", f"{self._at(dataset)}/{what}", json=wanted)

    def datasets(self) -> list[Json]:
        """The data sets and their public facts."""
        found: list[Json] = self._send("GET", "/datasets")
        return found

    def remaining(self, dataset: str | None = None) -> float:
        """What you can still spend: epsilon, or rho of a data set counted in it (`budget` says which)."""
        return float(self.budget(dataset)["remaining"])

    def budget(self, dataset: str | None = None) -> Json:
        """What you may spend, spent and can still spend, in what the data set is counted in."""
        found: Json = self._send("GET", f"{self._at(dataset)}/budget")
        return found

    def answers(self, dataset: str | None = None) -> list[Json]:
        """Your past answers, newest first."""
        found: list[Json] = self._send("GET", f"{self._at(dataset)}/answers")
        return found

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, dataset: str | None) -> str:
        name = dataset or self._dataset
        if name is None:
            ids = [each["id"] for each in self.datasets()]
            if len(ids) != 1:
                raise InputError(f"'dataset' must be one of {', '.join(ids)}.")
            name = self._dataset = ids[0]
        return f"/datasets/{quote(name, safe='')}"

    def _post(
        self,
        what: str,
        sql: str,
        epsilon: float | None,
        dataset: str | None,
        mode: str | None,
        error: float | None = None,
        rho: float | None = None,
    ) -> Any:
        given = {"epsilon": epsilon, "error": error, "rho": rho}
        amount = {name: value for name, value in given.items() if value is not None}
        question = {"sql": sql, "mode": mode, **amount}
        headers = {"idempotency-key": str(uuid.uuid4())} if what == "ask" else {}
        return self._send("POST", f"{self._at(dataset)}/{what}", json=question, headers=headers)

    def _send(self, method: str, path: str, **words: Any) -> Any:
        """The facts that the server answers with."""
        response = self._sent(method, path, **words)
        try:
            return response.json()
        except ValueError:
            raise InputError(_NO_SERVER) from None

    def _sent(self, method: str, path: str, **words: Any) -> httpx.Response:
        """What the server answers with; what it refuses is raised."""
        try:
            response = self._tried(method, path, **words)
            if response.is_success:
                return response
            facts = response.json()
        except httpx.TransportError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise InputError(
                    "The server's certificate is not trusted. If it is your own, pass its file as 'verify'."
                ) from None
            raise InputError(f"The server cannot be reached: {type(error).__name__}.") from None
        except ValueError:
            raise InputError(_NO_SERVER) from None
        kind = getattr(errors, str(facts.get("kind")), ShoalError) if isinstance(facts, dict) else ShoalError
        problem = kind if isinstance(kind, type) and issubclass(kind, ShoalError) else ShoalError
        sentence = facts.get("error") if isinstance(facts, dict) else None
        raise (ShoalError if problem is MissingExtraError else problem)(
            sentence or f"The server refused with status {response.status_code}."
        )

    def _tried(self, method: str, path: str, **words: Any) -> httpx.Response:
        """Send, and again after a while where the server cannot be reached, breaks off or asks to wait.

        Nothing that is sent here does more when it comes twice: what is charged has its key.
        """
        for turn in range(self._retries + 1):
            last = turn == self._retries
            try:
                response = self._http.request(method, path, **words)
            except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                if last or "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise
            else:
                if last or response.status_code not in (429, 503):
                    return response
            time.sleep(0.2 * 2**turn)
        raise AssertionError  # the last turn returns or raises


def _trusted(verify: bool | str | Path | ssl.SSLContext) -> bool | ssl.SSLContext:
    if isinstance(verify, (bool, ssl.SSLContext)):
        return verify
    try:
        return ssl.create_default_context(cafile=str(verify))
    except (OSError, ssl.SSLError):
        raise InputError(f"'verify' must be a file of certificates. Got {str(verify)!r}.") from None
