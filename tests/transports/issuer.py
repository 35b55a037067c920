"""An authorization server with metadata, keys and tokens, and with faults on demand."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.waiting import PATIENCE_S, block

AUDIENCE = "https://files.example.org/mcp"
ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split()

Private: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


class Key(NamedTuple):
    """A key of an issuer, with its name there."""

    kid: str
    private: Private

    def jwk(self, **more: Any) -> dict[str, Any]:
        """Return the public half as a key set has it."""
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            found = RSAAlgorithm.to_jwk(public, as_dict=True)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            found = ECAlgorithm.to_jwk(public, as_dict=True)
        else:
            found = OKPAlgorithm.to_jwk(public, as_dict=True)
        return {**found, "kid": self.kid, "use": "sig", **more}


_CURVES: Mapping[str, Callable[[], ec.EllipticCurve]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
}


@cache
def key(kid: str, algorithm: str = "ES256", bits: int = 2048) -> Key:
    """Return the key of that name: always the same one."""
    if algorithm in _CURVES:
        return Key(kid, ec.generate_private_key(_CURVES[algorithm]()))
    if algorithm == "EdDSA":
        return Key(kid, ed25519.Ed25519PrivateKey.generate())
    return Key(kid, rsa.generate_private_key(65537, bits))


def signer(algorithm: str) -> Key:
    """Return the key that signs by an algorithm: always the same one."""
    return key(f"of {algorithm}", algorithm if algorithm[0] == "E" else "RSA")


class Issuer:
    """Answers over HTTP while it is entered; its documents may change at any time."""

    def __init__(self, port: int, path: str) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}{path}"
        self.documents: dict[str, Any] = {}
        """The document at each path: JSON, raw bytes, or text as the target of a redirect."""
        self.asked: list[str] = []
        """The requested paths."""
        self.is_down = False
        self.drips = False
        """It answers byte by byte, which takes a while."""
        self.answers = threading.Event()
        """Cleared: it takes requests, and lets them wait."""
        self.answers.set()
        self.news = threading.Condition()
        self.codes: dict[str, dict[str, str]] = {}
        """The requests for which codes were issued; each code works once."""
        self.clients: list[tuple[str | None, str | None]] = []
        """How its clients authenticated: the header, and the secret in the form."""
        self.tokens: dict[str, Any] = {}
        """What its responses to codes have beside, or instead of, good tokens."""
        self.discoverable(f"/.well-known/oauth-authorization-server{path}")
        self.publish(key("one"))

    def discoverable(self, path: str, **more: Any) -> None:
        """Have the metadata at this path, and nowhere else."""
        self.documents = {"/keys": self.documents.get("/keys")}
        self.documents[path] = {
            "issuer": self.url,
            "jwks_uri": f"{self.origin}/keys",
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "response_types_supported": ["code"],
            **more,
        }

    def publish(self, *keys: Key | dict[str, Any]) -> None:
        """Have these keys, and no others."""
        found = [each.jwk() if isinstance(each, Key) else each for each in keys]
        self.documents["/keys"] = {"keys": found}

    def token(
        self,
        signer: Key | None = None,
        algorithm: str = "ES256",
        headers: Mapping[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Return a valid token except for these headers and claims; None leaves one out."""
        signer = signer or key("one")
        said = {**self.claims(), **claims}
        header = {"kid": signer.kid, **(headers or {})}
        if header["kid"] is None:
            del header["kid"]
        claims = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(claims, signer.private, algorithm, header)

    def claims(self) -> dict[str, Any]:
        """Return the claims of a good token."""
        now = int(time.time())
        return {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "scope": "mcp:read",
            "iat": now,
            "exp": now + 600,
        }

    def sign_in(self, url: str) -> str:
        """Sign Alice in who comes by this URL; return where she is sent back to."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{self.origin}/authorize?")
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = f"code {len(self.asked)} {asked['state'][:4]}"
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def redeemed(self, form: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a code; None for one that is not good."""
        asked = self.codes.pop(form["code"], None)
        challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest())
        if (
            asked is None
            or asked["code_challenge"] != challenge.decode().rstrip("=")
            or any(asked[each] != form[each] for each in ("client_id", "redirect_uri", "resource"))
        ):
            return None
        claims: dict[str, Any] = {"scope": asked["scope"], "aud": asked["resource"]}
        found: dict[str, Any] = {"access_token": self.token(**claims), "token_type": "Bearer"}
        if "nonce" in asked:
            claims = {"scope": None, "aud": asked["client_id"], "nonce": asked["nonce"]}
            found["id_token"] = self.token(**claims)
        return found | self.tokens

    def count(self, path: str) -> int:
        """Return the number of requests for a path."""
        return self.asked.count(path)

    def wait_until_asked(self, path: str, times: int, within: float = PATIENCE_S) -> None:
        """Wait for that many requests for a path."""
        with self.news:
            assert self.news.wait_for(lambda: self.count(path) >= times, within), self.asked


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_GET(self) -> None:
        issuer = self.issuer
        with issuer.news:
            issuer.asked.append(self.path)
            issuer.news.notify_all()
        issuer.answers.wait(20.0)
        found = issuer.documents.get(self.path)
        if issuer.is_down:
            self._answer(500, b"")
        elif found is None:
            self._answer(404, b"")
        elif isinstance(found, str):
            self._answer(302, b"", location=found)
        else:
            self._answer(200, found if isinstance(found, bytes) else json.dumps(found).encode())

    def do_POST(self) -> None:
        """Issue a token for a code, or for the requested resource and scope."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        asked = dict(parse_qsl(body))
        issuer = self.issuer
        if asked["grant_type"] == "authorization_code":
            issuer.asked.append(self.path)
            issuer.clients.append((self.headers["authorization"], asked.get("client_secret")))
            issuer.answers.wait(20.0)
            redeemed = issuer.redeemed(asked)
            status = 500 if issuer.is_down else 400 if redeemed is None else 200
            self._answer(status, json.dumps(redeemed or {"error": "invalid_grant"}).encode())
            return
        assert asked["grant_type"] == "client_credentials"
        token = issuer.token(aud=asked["resource"], scope=asked.get("scope"), sub="robot")
        found = {"access_token": token, "token_type": "Bearer", "expires_in": 600}
        self._answer(200, json.dumps(found).encode())

    def _answer(self, status: int, body: bytes, *, location: str | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if location is not None:
            self.send_header("location", location)
        self.end_headers()
        if not self.issuer.drips:
            self.wfile.write(body)
            return
        with suppress(OSError):  # it was given up
            for byte in body:
                self.wfile.write(bytes([byte]))
                block(0.05)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def issuing(path: str = "") -> Generator[Issuer]:
    """Run an authorization server; its issuer has that path."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        handler.issuer = issuer = Issuer(server.server_address[1], path)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield issuer
        finally:
            issuer.answers.set()
            server.shutdown()
            thread.join()
