import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { it } from "node:test";
import { silentLogger } from "gantry";
import { RequestUsers } from "../../../src/http/request-users.js";
import { createTokenValue, hashToken, writeTokenFile } from "../../../src/http/token-file.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";

const createRequest = (headers: Record<string, string>): IncomingMessage =>
  ({
    headers,
    rawHeaders: Object.entries(headers).flat(),
    headersDistinct: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]])),
    socket: { remoteAddress: "127.0.0.1" },
  }) as unknown as IncomingMessage;

it("users whom a proxy names are forgotten beyond 1,000, except the recent ones and those with connections", async (t) => {
  const users = await RequestUsers.open({ trustedUserHeader: "x-user", trustedProxies: ["127.0.0.1"] }, silentLogger);
  t.after(() => users.close());
  const identify = (name: string) => {
    const request = createRequest({ "x-user": name });
    assert.equal(
      users.identify(request, () => false),
      undefined,
    );
    return { request, user: users.userOf(request) };
  };
  const connected = identify("connected");
  users.track(connected.request, new PassThrough());
  const recent = identify("recent");
  const old = identify("old");
  for (let n = 0; n < 1_500; n += 1) {
    identify(`user-${n}`);
    if (n % 100 === 0) assert.equal(identify("recent").user, recent.user);
  }
  assert.equal(identify("connected").user, connected.user);
  assert.equal(identify("recent").user, recent.user);
  assert.notEqual(identify("old").user, old.user);
});

it("the object of a user is replaced when the token expires, so that the user's agent is released", async (t) => {
  const folder = await tempDir(t);
  const [tokenFile, token] = [folder.at("tokens.json"), createTokenValue()];
  const expiresAt = new Date(Date.now() + 1_000).toISOString();
  const entry = { name: "ada", hash: hashToken(token), scopes: ["read"] as const, createdAt: expiresAt };
  await writeTokenFile(tokenFile, [{ ...entry, expiresAt }]);
  const users = await RequestUsers.open({ tokenFile }, silentLogger);
  t.after(() => users.close());
  const request = createRequest({ authorization: `Bearer ${token}` });
  const socket = new PassThrough();
  if (users.identify(request, () => false) !== undefined) return t.skip("the token expired before the first request");
  users.track(request, socket);
  await waitUntil(() => socket.destroyed);
  assert.equal(users.identify(createRequest({ authorization: `Bearer ${token}` }), () => false)?.status, 401);
});
