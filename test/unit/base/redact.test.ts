import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { headerSecrets, Redactor } from "gantry/plugin";
import { redact } from "../../../src/base/redact.js";
import { environmentSecrets, looksSecret } from "../../../src/base/secret-detection.js";

const KEY = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
const redactor = new Redactor(new Set([KEY]));
const assertHidden = (text: string): void => assert.equal(redactor.hide(text), "[redacted]", text);

describe("Redactor", () => {
  it("hides a secret in base64 with any text before and after it, on one or several lines", () => {
    for (const prefix of ["", "a", "ab", "abc", '{"api_key":"'])
      for (const suffix of ["", "x", '"}\n', "xyz"]) {
        const plainBytes = Buffer.from(prefix + KEY + suffix);
        for (const text of [plainBytes.toString("base64"), plainBytes.toString("base64url")])
          for (const encodedText of [text, text.replace(/.{20}/g, "$&\n")]) {
            const visibleText = redactor.hide(encodedText).replace("[redacted]", "").replace(/\s/g, "");
            // The remaining text must contain no five consecutive characters of the key.
            const bytes = Buffer.from(visibleText, "base64").toString("latin1");
            for (let i = 0; i + 5 <= KEY.length; i++) assert.ok(!bytes.includes(KEY.slice(i, i + 5)), encodedText);
            assert.ok(redactor.hide(encodedText).includes("[redacted]"), encodedText);
          }
      }
  });

  it("hides a secret in hex of any case, with any separator or prefix", () => {
    const hex = Buffer.from(KEY).toString("hex");
    assertHidden(hex);
    assertHidden(hex.toUpperCase());
    assertHidden(hex.replace(/../g, "$& ").trim());
    assertHidden(hex.replace(/../g, "$&:").slice(0, -1));
    assertHidden(hex.replace(/.{60}/g, "$&\n"));
    for (const prefix of ["\\x", "\\X", "0X", "%"])
      assert.equal(redactor.hide(hex.toUpperCase().replace(/../g, `${prefix}$&`)).replace(prefix, ""), "[redacted]");
  });

  it("hides a secret in plain text, escaped for JSON and encoded for URLs", () => {
    const specialRedactor = new Redactor(['pa"ss\\wörd 1']);
    for (const text of ['pa"ss\\wörd 1', 'pa\\"ss\\\\wörd 1', encodeURIComponent('pa"ss\\wörd 1')])
      assert.equal(specialRedactor.hide(text), "[redacted]");
  });

  it("hides pieces of a secret with at least 16 characters, or at least 8 characters next to an ellipsis", () => {
    for (let pieceLength = 16; pieceLength < KEY.length; pieceLength++) {
      assert.equal(redactor.hide(`a ${KEY.slice(0, pieceLength)}`), "a [redacted]");
      assert.equal(redactor.hide(`${KEY.slice(-pieceLength)} b`), "[redacted] b");
    }
    for (let pieceLength = 8; pieceLength < KEY.length; pieceLength++) {
      assert.equal(redactor.hide(`a ${KEY.slice(0, pieceLength)}…`), "a [redacted]…");
      assert.equal(redactor.hide(`…${KEY.slice(-pieceLength)} b`), "…[redacted] b");
    }
  });

  it("hides each line of a multi-line secret", () => {
    const pem = `-----BEGIN PRIVATE KEY-----\n${"MIIEvQIBADANBgkqhkiG9w0B"}\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----`;
    const visibleText = new Redactor([pem]).hide(
      pem
        .split("\n")
        .map((line, i) => `${i}\t${line}`)
        .join("\n"),
    );
    assert.ok(!visibleText.includes("MIIEvQ") && !visibleText.includes("AQEFAA"), visibleText);
  });

  it("requests the secrets again for each text", () => {
    const secrets = new Set<string>();
    const liveRedactor = new Redactor(() => secrets);
    assert.equal(liveRedactor.hide("later-key"), "later-key");
    secrets.add("later-key");
    assert.equal(liveRedactor.hide("later-key"), "[redacted]");
  });

  it("ignores placeholders such as `not-needed` in the list of secrets", () => {
    const text = "ollama needs no key: use not-needed";
    assert.equal(new Redactor(["ollama", "not-needed", "x", "EMPTY"]).hide(text), text);
  });

  it("leaves long texts without secrets unchanged, and hides 25,000 copies of a repetitive secret", () => {
    const text = `${"import { readFile } from 'node:fs';\n".repeat(20_000)}${"a".repeat(200_000)}`;
    assert.equal(redactor.hide(text), text);
    for (const repetitiveText of [
      "Bearer" + " ".repeat(300_000),
      "-eyJ".repeat(50_000),
      "a://b:".repeat(50_000),
      "&key=[".repeat(50_000),
    ])
      assert.equal(redact(repetitiveText), repetitiveText);
    const repetitiveRedactor = new Redactor(["a".repeat(40), "0".repeat(64)]);
    assert.equal(repetitiveRedactor.hide("a".repeat(1_000_000)), "[redacted]".repeat(25_000));
  });
});

describe("environmentSecrets", () => {
  it("returns values of key-like names, passwords of URLs and values that look like keys", () => {
    const environment = {
      AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMIexampleKEY",
      DATABASE_URL: "postgres://app:s3cret%2Fpass@db/x",
      DEPLOY_TOKEN: "hunter2hunter2",
      OTHER: "use ghp_0123456789abcdefghij now",
    };
    assert.deepEqual(environmentSecrets(environment), [
      "wJalrXUtnFEMIexampleKEY",
      "s3cret%2Fpass",
      "s3cret/pass",
      "hunter2hunter2",
      "ghp_0123456789abcdefghij",
    ]);
    const wordSecrets = {
      DB_PASSWORD: "correct-horse-battery",
      API_KEY: "some-long-words",
      SIGN_KEY: "qwertyuiopasdfghjkl",
    };
    assert.deepEqual(environmentSecrets(wordSecrets), Object.values(wordSecrets));
  });

  it("ignores paths, placeholders, plain words, hashes and URLs without a password", () => {
    const environment = {
      GOOGLE_APPLICATION_CREDENTIALS: "/home/ada/credentials.json",
      API_KEY: "",
      SOME_TOKEN: "true",
      MASTER_KEY: "password",
      DATABASE_URL: "postgres://postgres:postgres@db/x",
      GITHUB_SHA: "0123456789abcdef0123456789abcdef01234567",
      PATH: "/usr/bin:/bin",
      AUTH_SERVICE: "https://auth.example/login",
      SORT_KEY: "created_at",
      CACHE_KEY: "node-modules",
      NPM_AUTH: "basic-auth",
    };
    assert.deepEqual(environmentSecrets(environment), []);
  });
});

describe("the detection of secrets by format", () => {
  it("redact hides API keys, JWTs, passwords of URLs and the `key` parameter of a URL", () => {
    for (const key of [
      "sk-proj-abcdefghijklmnop",
      "AKIAABCDEFGHIJKLMNOP",
      "xoxb-123456789012-abc",
      "eyJhbGciOiJI.eyJzdWIiOiIx.abc",
    ])
      assert.equal(redact(`a ${key} b`), "a [redacted] b");
    assert.equal(redact("postgres://me:pass1@host/db"), "postgres://me:[redacted]@host/db");
    assert.equal(redact("GET /v1?key=abc&x=1"), "GET /v1?key=[redacted]&x=1");
  });

  it("looksSecret rejects names, paths, versions and URLs, and accepts random strings and keys", () => {
    for (const value of [
      ...[
        "/home/anna/projects/shared",
        "My Application",
        "SAMEORIGIN",
        "claude-3-5-sonnet-20241022",
        "https://example.com/v1",
      ],
      ...["Meta-Llama-3.1-70B-Instruct-Turbo", "Qwen2.5-Coder-32B-Instruct", "2023-06-01", "anthropic-version"],
    ])
      assert.equal(looksSecret(value), false, value);
    for (const value of ["a".repeat(31) + "1", "aB3dE5gH7jK9mN1pQ3", "ghp_abcdefghijklmnop"])
      assert.equal(looksSecret(value), true, value);
  });

  it("headerSecrets returns the values of secret headers only", () => {
    const headers = {
      ...{ "X-Title": "My Application", "HTTP-Referer": "https://example.com", "anthropic-version": "2023-06-01" },
      ...{ "X-Own": "canary.header.7f3a9", "Ocp-Apim-Subscription-Key": "short", Cookie: "a=b", "X-Team": "blue" },
    };
    assert.deepEqual(headerSecrets(headers).sort(), ["a=b", "canary.header.7f3a9", "short"]);
  });
});
