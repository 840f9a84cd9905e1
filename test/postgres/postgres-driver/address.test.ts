import assert from "node:assert/strict";
import { it } from "node:test";
import { inspect } from "node:util";
import { ConfigError } from "gantry/plugin";
import { parseAddress, createTlsOptions } from "../../../adapters/postgres-driver/address.js";

it("parseAddress reads the parts of a URL, and hides the password from inspection", () => {
  const address = parseAddress(
    "postgres://ad%40a:p%2Fw%3A1@db.example.org/store?sslmode=disable&application_name=other",
  );
  const { host, port, user, database, applicationName: name } = address;
  assert.deepEqual(
    { host, port, user, database, name },
    {
      host: "db.example.org",
      port: 5432,
      user: "ad@a",
      database: "store",
      name: "other",
    },
  );
  assert.equal(address.password(), "p/w:1");
  assert.equal(address.location, "db.example.org:5432/store");
  assert.ok(!inspect(address, { depth: 5, showHidden: true }).includes("p/w:1"));
  assert.equal(parseAddress("postgresql://a@[::1]:6000/b").location, "[::1]:6000/b");
  assert.equal(parseAddress("postgres://a@/b?host=/run/postgresql").host, "/run/postgresql");
  // The default database has the name of the user, as in other PostgreSQL clients.
  assert.equal(parseAddress("postgres://ada@host").database, "ada");
});

it("createTlsOptions verifies certificates for require, verify-ca and verify-full, and not for other sslmodes", () => {
  const createModeOptions = (mode: string) => createTlsOptions(parseAddress(`postgres://a@b/c?sslmode=${mode}`));
  assert.equal(createTlsOptions(parseAddress("postgres://a@b/c")), undefined);
  assert.equal(createModeOptions("disable"), undefined);
  for (const mode of ["require", "verify-ca", "verify-full"]) assert.deepEqual(createModeOptions(mode), {});
  for (const mode of ["no-verify", "prefer", "allow"])
    assert.deepEqual(createModeOptions(mode), { rejectUnauthorized: false });
});

it("parseAddress rejects an invalid URL without its password in the error", () => {
  for (const url of [
    "",
    "nonsense s3cret",
    "http://a:s3cret@b/c",
    "postgres://a:s3cret@b:99999/c",
    "postgres://a:s3cret@b/c?sslmode=s3cret",
    "postgres://%zz:s3cret@b/c",
    // Passwords that are not percent-encoded.
    "postgres://a:s3cret/b@c/d",
    "postgres://a:12/s3cret@c/d",
    "postgres://a:12#s3cret@c/d",
    "postgres://a:12?s3cret@c/d",
    "postgres://a:12?x&s3cret@c/d=e",
  ])
    assert.throws(
      () => parseAddress(url),
      (error) =>
        error instanceof ConfigError && error.message.startsWith("session.url: ") && !inspect(error).includes("s3cret"),
      url,
    );
});
