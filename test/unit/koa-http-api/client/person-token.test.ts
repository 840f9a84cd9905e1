import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { it } from "node:test";
import { readTokenHeaders } from "../../../../adapters/koa-http-api/client/person-token.js";
import { tempDir } from "../../../helpers/temp-dir.js";

it("readTokenHeaders returns the token of GANTRY_HOME for loopback URLs only", async (t) => {
  const home = await tempDir(t, { token: "secret-of-the-test\n" });
  const previousHome = process.env["GANTRY_HOME"];
  process.env["GANTRY_HOME"] = home.path;
  t.after(() => {
    if (previousHome === undefined) delete process.env["GANTRY_HOME"];
    else process.env["GANTRY_HOME"] = previousHome;
  });
  const readAuthorization = (url: string) => readTokenHeaders(new URL(url))?.["Authorization"];
  for (const url of ["http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:8080", "https://127.1.2.3"])
    assert.equal(readAuthorization(url), "Bearer secret-of-the-test", url);
  for (const url of [
    "http://example.com",
    "http://localhost.example.com",
    "http://127.0.0.1.example.com",
    "http://10.0.0.1",
  ])
    assert.equal(readAuthorization(url), undefined, url);
  await rm(home.at("token"));
  assert.equal(readAuthorization("http://127.0.0.1:8080"), undefined);
});
