import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { link, mkdir, symlink, truncate } from "node:fs/promises";
import { describe, it } from "node:test";
import { ApiError, GantryClient } from "gantry/client";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";

const PNG = Buffer.from("89504e470d0a1a0a0000", "hex");

describe("GET /api/files/content", () => {
  it("returns text, images and the type of other files, in the folder of the session", async (t) => {
    const project = await tempDir(t, {
      "src/a.ts": "const ä = 1;\n",
      "empty.txt": "",
      "utf16.txt": Buffer.from("\ufeffwide", "utf16le"),
      "pixel.png": PNG,
      "page.pdf": "%PDF-1.7",
      program: Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0]),
    });
    await symlink("src/a.ts", project.at("link.ts"));
    const { url, agent } = await startApi(t);
    const { id } = await agent.sessions.create({ projectDir: project.path });
    const client = new GantryClient({ url });
    const read = (path: string) => client.fileContent(path, { sessionId: id });
    const { modified_at: modifiedAt, ...content } = await read("src/a.ts");
    assert.ok(Math.abs(Date.parse(modifiedAt) - Date.now()) < 3_600_000);
    const expected = {
      path: project.at("src/a.ts"),
      size: 14,
      text: "const ä = 1;\n",
      truncated: false,
      media_type: "text/plain",
    };
    assert.deepEqual(content, expected);
    assert.equal((await read(project.at("link.ts"))).path, project.at("src/a.ts"));
    const shown: unknown[] = [];
    for (const path of ["empty.txt", "utf16.txt", "pixel.png", "page.pdf", "program"]) {
      const { text, data, truncated, media_type: type } = await read(path);
      shown.push([text, data, truncated, type]);
    }
    assert.deepEqual(shown, [
      ["", undefined, false, "text/plain"],
      ["wide", undefined, false, "text/plain"],
      [null, PNG.toString("base64"), false, "image/png"],
      [null, undefined, true, "application/pdf"],
      [null, undefined, true, "application/octet-stream"],
    ]);
  });

  it("bounds text at a character and sparse files, and omits large images", async (t) => {
    const project = await tempDir(t, { "long.txt": `a${"ä".repeat(400_000)}`, "big.png": PNG, "sparse.txt": "text" });
    await truncate(project.at("big.png"), 6 * 1024 * 1024);
    await truncate(project.at("sparse.txt"), 1024 ** 4);
    const { url } = await startApi(t, { agent: { projectDir: project.path } });
    const client = new GantryClient({ url });
    const long = await client.fileContent("long.txt");
    assert.deepEqual([long.size, long.truncated, long.text?.length], [800_001, true, 262_144]);
    assert.match(long.text ?? "", /ä$/);
    const image = await client.fileContent("big.png");
    assert.deepEqual([image.data, image.truncated, image.size], [undefined, true, 6 * 1024 * 1024]);
    assert.equal((await client.fileContent("sparse.txt")).text, null);
  });

  it("refuses what the tool read refuses, with a code", { skip: process.platform === "win32" }, async (t) => {
    const project = await tempDir(t, { "a.txt": "a" });
    const [secrets, allowed] = [await tempDir(t, { "config.json": "{}" }), await tempDir(t, { "b.txt": "b" })];
    await symlink("/etc/passwd", project.at("outside"));
    await symlink(secrets.at("config.json"), project.at("secret"));
    await link(secrets.at("config.json"), project.at("hard"));
    await mkdir(project.at("folder"));
    execFileSync("mkfifo", [project.at("fifo")]);
    const { url, send } = await startApi(t, {
      agent: { projectDir: project.path },
      http: { allowPaths: [allowed.path], deniedPaths: [secrets.path] },
    });
    const client = new GantryClient({ url });
    assert.equal((await client.fileContent(allowed.at("b.txt"))).text, "b");
    for (const [path, status, code] of [
      ["none.txt", 404, "file_not_found"],
      ["folder", 400, "not_a_file"],
      ["../x", 403, "file_refused"],
      ["/etc/passwd", 403, "file_refused"],
      ["/proc/self/environ", 403, "file_refused"],
      ["outside", 403, "file_refused"],
      ["secret", 403, "file_refused"],
      ["hard", 403, "file_refused"],
      ["fifo", 403, "file_refused"],
      ["a\0b", 400, "invalid_query"],
      ["", 400, "invalid_query"],
    ] as const)
      await assert.rejects(client.fileContent(path), (error) => {
        assert.ok(error instanceof ApiError);
        assert.deepEqual([error.status, error.code], [status, code], path);
        return true;
      });
    assert.equal((await send("/api/files/content?path=a.txt&session_id=none")).status, 404);
    assert.equal((await send("/api/files/content?path=a.txt&project_dir=/etc")).status, 400);
  });
});
