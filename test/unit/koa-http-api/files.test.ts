import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, open, symlink } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { it } from "node:test";
import { tempDir } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";

const createAttachmentError = (path: string, reason: string) => ({
  error: `failed to load attachments: ${path}: ${reason}`,
  code: "attachment",
});

it("POST /api/run attaches files as application/octet-stream under their base names", async (t) => {
  const project = await tempDir(t, {
    "notes.md": "# Größe\n",
    "sub/pixel.png": Buffer.from("89504e470d0a1a0aff00", "hex"),
  });
  const { postRun, send, provider } = await startApi(t, { agent: { projectDir: project.path } });
  const { status, headers } = await postRun({
    message: "read",
    files: ["notes.md", project.at("sub/pixel.png"), "./sub/../notes.md"],
  });
  assert.equal(status, 200);
  const id = String(headers["x-session-id"]);
  const { messages } = (await send(`/api/sessions/${id}/messages`)).json() as { messages: { content: unknown }[] };
  const notes = {
    type: "file",
    media_type: "application/octet-stream",
    filename: "notes.md",
    data: Buffer.from("# Größe\n").toString("base64"),
  };
  assert.deepEqual(messages[0]?.content, [
    { type: "text", text: "read" },
    notes,
    {
      type: "file",
      media_type: "application/octet-stream",
      filename: "pixel.png",
      data: Buffer.from("89504e470d0a1a0aff00", "hex").toString("base64"),
    },
    notes,
  ]);
  assert.equal(provider.requests.length, 1);
});

it("POST /api/run on a loopback address attaches any regular file, also through symbolic links", async (t) => {
  const otherFolder = await tempDir(t, { "far.txt": "far" });
  const project = await tempDir(t);
  await symlink(otherFolder.at("far.txt"), project.at("link.txt"));
  const { postRun } = await startApi(t, { agent: { projectDir: project.path } });
  for (const file of [otherFolder.at("far.txt"), "link.txt", "/etc/hostname"])
    assert.equal((await postRun({ message: "hi", files: [file] })).status, 200, file);
});

it("POST /api/run rejects a file that is not a readable regular file, with the reason, and starts no run", async (t) => {
  const project = await tempDir(t, { "a.txt": "a", "empty.txt": "" });
  const home = await tempDir(t, { "config.json": "{}", "sessions.db": "x" });
  await mkdir(project.at("folder"));
  execFileSync("mkfifo", [project.at("fifo")]);
  await symlink("fifo", project.at("to-fifo"));
  await symlink(home.at("config.json"), project.at("to-home"));
  await symlink("/proc/self/environ", project.at("to-proc"));
  await symlink("loop", project.at("loop"));
  await symlink("nowhere", project.at("dangling"));
  const socket = createServer();
  await new Promise<void>((resolve) => socket.listen(project.at("socket"), resolve));
  t.after(() => void socket.close());
  connect(project.at("socket")).destroy();
  const sparseFile = await open(project.at("sparse"), "w");
  await sparseFile.truncate(1024 ** 3);
  await sparseFile.close();
  const maxSizeFile = await open(project.at("exact"), "w");
  await maxSizeFile.truncate(20 * 1024 ** 2);
  await maxSizeFile.close();
  const oversizedFile = await open(project.at("over"), "w");
  await oversizedFile.truncate(20 * 1024 ** 2 + 1);
  await oversizedFile.close();

  const { postRun, send, provider } = await startApi(t, {
    agent: { projectDir: project.path },
    http: { deniedPaths: [home.path] },
  });
  const accessDeniedPattern = /access is denied/;
  const cases: [path: string, reason: RegExp][] = [
    ["missing.txt", /not found/],
    ["a.txt/x", /not found/],
    ["dangling", /not found/],
    ["", /folder/],
    [".", /folder/],
    ["folder", /folder/],
    ["fifo", /named pipe/],
    ["to-fifo", /named pipe/],
    ["socket", /socket/],
    ["loop", /symbolic links/],
    ["sparse", /larger than 20 MiB/],
    ["over", /larger than 20 MiB/],
    ["a\0.txt", /NUL/],
    ["x".repeat(5000), /too long/],
    ["/dev/zero", accessDeniedPattern],
    ["/dev/stdin", accessDeniedPattern],
    ["/proc/self/environ", accessDeniedPattern],
    ["/proc/self/root/etc/hostname", accessDeniedPattern],
    ["/sys/kernel/notes", accessDeniedPattern],
    ["to-proc", accessDeniedPattern],
    [home.at("config.json"), accessDeniedPattern],
    [home.at("sessions.db"), accessDeniedPattern],
    [`${home.path}/../${home.path.split("/").at(-1)}/config.json`, accessDeniedPattern],
    ["to-home", accessDeniedPattern],
  ];
  for (const [path, reason] of cases) {
    for (const stream of [false, true]) {
      const { status, json } = await postRun({ message: "hi", files: ["a.txt", path], stream });
      const { error } = json() as { error: string };
      assert.equal(status, 400, path);
      // An error message shows at most 300 characters of a path.
      const displayedPath = path.length > 300 ? `${path.slice(0, 300)}…` : path;
      assert.ok(error.startsWith(`failed to load attachments: ${displayedPath}: `), error);
      assert.match(error.slice(error.indexOf(displayedPath) + displayedPath.length), reason, path);
    }
  }
  assert.deepEqual(
    (await postRun({ message: "hi", files: ["missing.txt"] })).json(),
    createAttachmentError("missing.txt", "not found"),
  );
  assert.equal(provider.requests.length, 0);
  assert.equal(((await send("/api/sessions")).json() as { total: number }).total, 0);
  assert.equal((await postRun({ message: "hi", files: ["exact", "empty.txt"] })).status, 200);
});

it("POST /api/run rejects more than 256 files and more than 64 MiB of files", async (t) => {
  const project = await tempDir(t, { "a.txt": "a" });
  const largeFile = await open(project.at("big"), "w");
  await largeFile.truncate(20 * 1024 ** 2);
  await largeFile.close();
  const { postRun } = await startApi(t, { agent: { projectDir: project.path } });
  const fileCountResponse = await postRun({ message: "hi", files: Array.from({ length: 257 }, () => "a.txt") });
  assert.deepEqual(
    [fileCountResponse.status, fileCountResponse.json()],
    [400, createAttachmentError("a.txt", "more than 256 files")],
  );
  const sizeResponse = await postRun({ message: "hi", files: ["big", "big", "big", "big"] });
  assert.deepEqual(
    [sizeResponse.status, sizeResponse.json()],
    [400, createAttachmentError("big", "more than 64 MiB of files")],
  );
});

it("POST /api/run on a public address attaches only files of the project and the temporary folder", async (t) => {
  const project = await tempDir(t, { "a.txt": "a" });
  const temporaryFolder = await tempDir(t, { "t.txt": "t" });
  await symlink("/etc/hostname", project.at("escape"));
  const { listening, postRun } = await startApi(t, {
    agent: { projectDir: project.path },
    host: { host: "0.0.0.0", insecure: true },
    http: { allowPaths: ["/usr/share"] },
  });
  assert.match(listening.address, /0\.0\.0\.0/);
  for (const file of ["a.txt", project.at("a.txt"), temporaryFolder.at("t.txt")])
    assert.equal((await postRun({ message: "hi", files: [file] })).status, 200, file);
  for (const file of ["/etc/hostname", "../../etc/hostname", "escape", `${project.path}-evil/a`]) {
    const { status, json } = await postRun({ message: "hi", files: [file] });
    if (file.includes("-evil")) assert.equal(status, 400);
    else assert.deepEqual([status, json()], [400, createAttachmentError(file, "outside the project folder")], file);
  }
});
