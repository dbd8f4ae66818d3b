"""An OpenID Connect issuer of Authlib, on a free port of this machine. It prints its address and signs in one person."""

import sys
import threading

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, jsonify
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

EMAIL, CLIENT, SECRET = sys.argv[1:4]
key = RSAKey.generate_key(2048, {"kid": "1", "alg": "RS256", "use": "sig"})
codes = {}
app = Flask(__name__)
http = make_server("127.0.0.1", 0, app)
issuer = f"http://127.0.0.1:{http.server_port}"


class Client(ClientMixin):
    client_id = CLIENT

    def get_client_id(self):
        return CLIENT

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri.endswith("/login/single-sign-on/callback")

    def check_client_secret(self, client_secret):
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method, endpoint):
        return method in ("client_secret_basic", "client_secret_post")

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type == "authorization_code"


class Code(AuthorizationCodeMixin):
    def __init__(self, request):
        data = request.payload.data
        self.redirect_uri, self.scope = request.payload.redirect_uri, request.payload.scope
        self.nonce, self.code_challenge = data.get("nonce"), data["code_challenge"]
        self.code_challenge_method = data["code_challenge_method"]

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope

    def get_nonce(self):
        return self.nonce

    def get_auth_time(self):
        return None

    def get_acr(self):
        return None

    def get_amr(self):
        return None


class CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]

    def save_authorization_code(self, code, request):
        codes[code] = Code(request)

    def query_authorization_code(self, code, client):
        return codes.get(code)

    def delete_authorization_code(self, authorization_code):
        codes.clear()

    def authenticate_user(self, authorization_code):
        return EMAIL


class Identity(OpenIDCode):
    def exists_nonce(self, nonce, request):
        return False

    def get_jwt_config(self, grant, client=None):
        return {"key": key.as_dict(private=True), "alg": "RS256", "iss": issuer, "exp": 300}

    def generate_user_info(self, user, scope):
        return UserInfo(sub="person-1", email=user, email_verified=True)


server = AuthorizationServer(app, query_client=lambda _: Client(), save_token=lambda token, request: None)
server.register_grant(CodeGrant, [Identity(require_nonce=True), CodeChallenge(required=True)])


@app.get("/.well-known/openid-configuration")
def configuration():
    return jsonify(
        issuer=issuer,
        authorization_endpoint=f"{issuer}/authorize",
        token_endpoint=f"{issuer}/token",
        jwks_uri=f"{issuer}/jwks",
        response_types_supported=["code"],
        subject_types_supported=["public"],
        id_token_signing_alg_values_supported=["RS256"],
        code_challenge_methods_supported=["S256"],
    )


@app.get("/jwks")
def jwks():
    return jsonify(keys=[key.as_dict(private=False)])


@app.get("/authorize")
def authorize():
    return server.create_authorization_response(grant_user=EMAIL, grant=server.get_consent_grant(end_user=EMAIL))


@app.post("/token")
def token():
    return server.create_token_response()


threading.Thread(target=http.serve_forever, daemon=True).start()
print(issuer, flush=True)
sys.stdin.read()
