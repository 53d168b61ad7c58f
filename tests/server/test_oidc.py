"""Sign-in at a real OpenID Connect provider, which runs in a process of its own on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from shoal.errors import ParameterError
from shoal.server.accounts import Accounts
from shoal.server.config import Config

from .conftest import LiveServer, free_port

pytest.importorskip("oidc_provider_mock", reason="oidc-provider-mock is not installed")
USERS = {
    "1001": {"preferred_username": "ann", "groups": ["analysts"]},
    "1002": {"preferred_username": "olga", "groups": ["owners", "analysts"]},
    "1003": {"preferred_username": "ben", "groups": ["cooks"]},
    "1004": {"preferred_username": "taken", "groups": ["owners"]},
    "1005": {"preferred_username": "Not A Name!", "groups": ["analysts"]},
}


@pytest.fixture(scope="module")
def provider():
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            try:
                httpx.get(url, timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        for sub, claims in USERS.items():
            done = httpx.put(f"{url}/users/{sub}", json=claims)
            assert done.status_code < 400, done.text
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def joined(tmp_path_factory, provider):
    live = LiveServer(tmp_path_factory.mktemp("joined"))
    text = live.path.read_text()
    lines = ["[oidc]", f'issuer = "{provider}"', 'client_id = "shoal"', 'client_secret_file = "secret.txt"']
    lines += [f'redirect_url = "{live.url}/oidc/back"', 'roles = {owners = "owner", analysts = "analyst"}']
    lines += ['scopes = ["openid", "profile", "email", "groups"]']
    live.path.write_text(text + "\n".join(lines) + "\n")
    (live.folder / "secret.txt").write_text("not told to anybody\n")
    live.book.add("taken", "analyst")
    live.start()
    yield live
    live.stop()


def begin(client):
    """To the provider, as a browser goes."""
    sent = client.get("/oidc/start", params={"next": "/account"})
    assert sent.status_code == 303
    return sent.headers["location"]


def at_provider(url, sub):
    """Sign in there; gives the address that the provider sends the browser back to."""
    done = httpx.post(url, data={"sub": sub}, follow_redirects=False)
    assert done.status_code in (302, 303), done.text
    return done.headers["location"]


def came(live, client, back):
    parts = urlsplit(back)
    return client.get(f"{parts.path}?{parts.query}")


def test_the_sign_in_page_offers_it_and_an_analyst_comes_in(joined, provider):
    with joined.http() as client:
        assert "/oidc/start" in client.get("/sign-in").text
        url = begin(client)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        kept = json.loads(base64.urlsafe_b64decode(client.cookies["shoal_oidc"].strip('"')))
        digest = hashlib.sha256(kept["verifier"].encode()).digest()
        assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert (asked["state"], asked["nonce"]) == (kept["state"], kept["nonce"])
        entered = came(joined, client, at_provider(url, "1001"))
        assert entered.status_code == 200, entered.text
        assert "url=/account" in entered.text
        page = client.get("/account")
        assert "<b>ann</b>" in page.text
        assert client.get("/owner").status_code == 403
    auditor = joined.book.add("aud", "auditor")
    with joined.http(auditor) as client:
        rows = client.get("/api/v1/log/questions", params={"analyst": "ann"}).json()["rows"]
        assert [each["text"] for each in rows] == ["sign-in: by OpenID Connect"]


@pytest.mark.parametrize(
    ("sub", "says"),
    [
        ("1003", "None of your groups"),
        ("1004", "belongs to another account"),
        ("1005", "no name of an account"),
    ],
)
def test_who_may_not_come_in(joined, provider, sub, says):
    with joined.http() as client:
        told = came(joined, client, at_provider(begin(client), sub))
        assert told.status_code >= 400
        assert says in told.text
        assert client.get("/account").status_code == 303


def test_a_sign_in_begun_elsewhere_or_brought_twice_is_refused(joined, provider):
    with joined.http() as client, joined.http() as other:
        back = at_provider(begin(client), "1002")
        assert came(joined, other, back).status_code == 403  # another browser
        assert came(joined, client, back.replace("state=", "state=x")).status_code == 403
        assert came(joined, client, back).status_code == 200
        assert client.get("/owner").status_code == 200
        assert came(joined, client, back).status_code == 403  # its cookie is gone
        assert client.get("/oidc/back").status_code == 403


def packed(kept):
    return base64.urlsafe_b64encode(json.dumps(kept).encode()).decode()


def test_a_code_of_another_sign_in_is_refused(joined, provider):
    with joined.http() as attacker, joined.http() as victim:
        stolen = parse_qs(urlsplit(at_provider(begin(attacker), "1002")).query)["code"][0]
        own = parse_qs(urlsplit(begin(victim)).query)["state"][0]
        told = victim.get("/oidc/back", params={"code": stolen, "state": own})
        assert told.status_code == 403, told.text
        assert victim.get("/account").status_code == 303


def test_the_nonce_must_be_that_of_the_browser(joined, provider):
    with joined.http() as client:
        back = at_provider(begin(client), "1002")
        kept = json.loads(base64.urlsafe_b64decode(client.cookies["shoal_oidc"].strip('"')))
        client.cookies.clear()
        client.cookies.set("shoal_oidc", packed(kept | {"nonce": "another" * 10}))
        told = came(joined, client, back)
        assert told.status_code == 403, told.text
        assert "nonce" in told.text
        assert client.get("/account").status_code == 303


@pytest.mark.parametrize(
    "kept",
    [
        {"state": "s"},
        {"state": "s", "nonce": "n"},
        {"state": "s", "nonce": 7, "verifier": ["v"]},
        ["s"],
        "s",
        None,
    ],
    ids=["no nonce", "no verifier", "no texts", "list", "text", "null"],
)
def test_a_cookie_of_another_shape_is_refused_before_the_provider_is_asked(joined, kept):
    with joined.http() as client:
        client.cookies.set("shoal_oidc", packed(kept))
        told = client.get("/oidc/back", params={"code": "c", "state": "s"})
        assert told.status_code == 403
        assert "not begun here" in told.text


def test_an_id_token_is_verified(joined, provider):
    """Tokens of another key, audience, issuer, nonce and time are refused, with the provider's real keys at hand."""
    import anyio
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    from shoal.server.oidc import RefusedError, SignIn

    config, key = Config.from_toml(joined.path), RSAKey.generate_key(2048, {"kid": "k", "use": "sig"})
    now = int(time.time())
    good = {"iss": provider, "aud": "shoal", "sub": "7", "nonce": "n", "exp": now + 60, "iat": now}

    def verify(claims, sign_key=key, known=True, forged=None):
        sign_in = SignIn(config.oidc)

        async def run():
            found = await sign_in.provider()
            if known:
                found.keys.keys.append(key)
            token = jwt.encode({"alg": "RS256", "kid": "k"}, claims, sign_key)
            return await sign_in._verified(token if forged is None else forged, "n")

        with ThreadPoolExecutor(1) as apart:  # a browser of another test may have a loop in this thread
            return apart.submit(anyio.run, run).result()

    assert verify(good)["sub"] == "7"
    with pytest.raises(RefusedError, match="not signed"):
        verify(good, known=False)
    with pytest.raises(RefusedError, match="not signed"):
        verify(good, RSAKey.generate_key(2048, {"kid": "k"}))

    def plain(algorithm):
        return ".".join(
            base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
            for each in ({"alg": algorithm, "kid": "k"}, good)
        )

    public = hmac.digest(key.as_pem(private=False), plain("HS256").encode(), "sha256")
    by_public_key = f"{plain('HS256')}.{base64.urlsafe_b64encode(public).rstrip(b'=').decode()}"
    unsigned = f"{plain('none')}."
    for forged in (unsigned, by_public_key, "", "a.b.c"):
        with pytest.raises(RefusedError, match="not signed"):
            verify(good, forged=forged)
    for name, value, says in (
        ("iss", "http://127.0.0.1:1", "issuer"),
        ("aud", "another", "audience"),
        ("aud", ["shoal", "another"], "authorized party"),
        ("exp", now - 3600, "expiry"),
        ("iat", now + 3600, "time"),
        ("nonce", "m", "nonce"),
        ("sub", "", "subject"),
    ):
        with pytest.raises(RefusedError, match=says):
            verify(good | {name: value})


class OtherProvider:
    """A provider that answers as told: which methods its token endpoint takes, and what it says there."""

    def __init__(self, methods=None, tokens=None):
        self.tokens, self.asked = tokens, []
        self.facts = {
            "issuer": "",
            "authorization_endpoint": "http://127.0.0.1/in?realm=a b",
            "jwks_uri": "x",
        }
        self.facts |= {"token_endpoint": "http://127.0.0.1/token"}
        self.facts |= {} if methods is None else {"token_endpoint_auth_methods_supported": methods}

    def __call__(self, request):
        self.asked.append(request)
        if self.tokens is None:
            raise httpx.ConnectError("nobody there")
        return self.tokens


def exchanged(joined, other):
    """What comes of a code at that provider."""
    import anyio
    from joserfc.jwk import KeySet

    from shoal.server.oidc import Provider, SignIn

    sign_in = SignIn(Config.from_toml(joined.path).oidc, httpx.MockTransport(other))
    sign_in._provider = Provider(other.facts, KeySet([]), time.monotonic())

    async def run():
        url, kept = await sign_in.start()
        assert url.startswith("http://127.0.0.1/in?realm=a b&response_type=code&")
        return await sign_in.finish("c/d", kept)

    with ThreadPoolExecutor(1) as apart:
        return apart.submit(anyio.run, run).result()


@pytest.mark.parametrize(
    "tokens",
    [
        None,
        httpx.Response(400, json={"error": "invalid_grant"}),
        httpx.Response(200, text="<p>busy</p>"),
        httpx.Response(200, json=["no", "tokens"]),
        httpx.Response(200, json={}),
    ],
    ids=["not there", "refuses", "no JSON", "no object", "no token"],
)
def test_a_provider_that_does_not_confirm_lets_nobody_in(joined, tokens):
    from shoal.server.oidc import RefusedError

    with pytest.raises(RefusedError, match=r"did not confirm|not signed|reached"):
        exchanged(joined, OtherProvider(tokens=tokens))


@pytest.mark.parametrize(
    "methods", [None, ["client_secret_post"], ["client_secret_basic", "private_key_jwt"]]
)
def test_the_secret_goes_where_the_provider_takes_it(joined, methods):
    from shoal.server.oidc import RefusedError

    other = OtherProvider(methods, httpx.Response(400))
    with pytest.raises(RefusedError):
        exchanged(joined, other)
    asked = other.asked[0]
    form = {name: values[0] for name, values in parse_qs(asked.content.decode()).items()}
    assert (form["code"], form["grant_type"], form["client_id"]) == ("c/d", "authorization_code", "shoal")
    if methods == ["client_secret_post"]:
        assert form["client_secret"] == "not told to anybody"
        assert "authorization" not in asked.headers
    else:
        words = base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode()
        assert words == "shoal:not+told+to+anybody"
        assert "client_secret" not in form


def test_a_subject_keeps_its_name_and_a_revoked_one_stays_out():
    book = Accounts()
    book.add("olga", "owner")
    first = book.of_subject("issuer|1", "ann", "analyst")
    assert (first.name, first.role) == ("ann", "analyst")
    assert book.of_subject("issuer|1", "renamed", "auditor").name == "ann"
    assert book.get(first.id).role == "auditor"
    with pytest.raises(ParameterError, match="another account"):
        book.of_subject("issuer|2", "ann", "owner")
    with pytest.raises(ParameterError, match="another account"):
        book.of_subject("issuer|3", "olga", "owner")
    book.revoke("ann")
    with pytest.raises(ParameterError, match="was revoked"):
        book.of_subject("issuer|1", "ann", "analyst")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('issuer = "http://example.org"', "https"),
        ('redirect_url = "https://a.example/x"', "/oidc/back"),
        ('roles = {a = "king"}', "king"),
        ("colour = 1", "may have"),
        ("label = 3", "'label'"),
    ],
)
def test_settings_that_are_refused(joined, tmp_path, line, says):
    name = line.split(" ")[0]
    text = "\n".join(
        each for each in joined.path.read_text().splitlines() if not each.startswith(f"{name} =")
    )
    path = joined.folder / "wrong.toml"
    path.write_text(text + f"\n{line}\n")
    with pytest.raises(ParameterError, match=says):
        Config.from_toml(path)
