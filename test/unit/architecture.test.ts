import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { architectureFaults } from "../helpers/architecture.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

function repository(): Map<string, string> {
  const sources = new Map<string, string>();
  const walk = (folder: string): void => {
    for (const entry of readdirSync(path.join(ROOT, folder), { withFileTypes: true })) {
      const file = `${folder}/${entry.name}`;
      if (entry.isDirectory()) walk(file);
      else if (/\.tsx?$/.test(entry.name)) sources.set(file, readFileSync(path.join(ROOT, file), "utf8"));
    }
  };
  for (const folder of ["src", "adapters", "examples"]) walk(folder);
  return sources;
}

describe("the architecture", () => {
  it("has no import against the layers, no forbidden word and no heavy start path", () => {
    assert.deepEqual(architectureFaults(repository()), []);
  });

  it("has nothing at the top but what belongs there", () => {
    const allowed = new Set(
      "package.json package-lock.json tsconfig.json src adapters examples test docs README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md dist node_modules".split(
        " ",
      ),
    );
    const strange = readdirSync(ROOT).filter(
      (name) => !name.startsWith(".") && !allowed.has(name) && !name.endsWith(".tgz"),
    );
    assert.deepEqual(strange, []);
  });

  it("has each module in the table of CONTRIBUTING, and no other", () => {
    const text = readFileSync(path.join(ROOT, "CONTRIBUTING.md"), "utf8");
    const folders = (parent: string) =>
      readdirSync(path.join(ROOT, parent), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => `${parent}/${name}`);
    const section = /^## Modules\n([^]*?)^## /m.exec(text)?.[1] ?? "";
    const table = [...section.matchAll(/^\| `(src\/[\w/-]+)` +\|/gm)].map(([, name]) => name);
    assert.deepEqual(table.sort(), [...folders("src"), ...folders("src/run")].sort());
  });

  it("names its files in kebab-case", () => {
    const odd = [...repository().keys()].filter(
      (file) => !/^(?:[a-z0-9]+(?:-[a-z0-9]+)*\/)*[a-z0-9]+(?:[-.][a-z0-9]+)*\.tsx?$/.test(file),
    );
    assert.deepEqual(odd, []);
  });
});

describe("each rule bites", () => {
  /** The faults in a repository that consists of these files only. */
  const faults = (files: Record<string, string>): string[] => architectureFaults(new Map(Object.entries(files)));

  const wrong: [what: string, files: Record<string, string>, fault: RegExp][] = [
    [
      "an adapter that opens a port by itself",
      { "adapters/a/index.ts": 'import { createServer } from "node:http";' },
      /opens an HTTP port; only src\/http\/http-host\.ts may/,
    ],
    [
      "an adapter that gathers a body by itself",
      { "adapters/a/index.ts": "for await (const chunk of request.iterator()) use(chunk);" },
      /reads a request's body; only src\/http\/body\.ts may/,
    ],
    [
      "an adapter that has a body parsed as it comes",
      { "adapters/a/index.ts": 'const parser = import("koa-body");' },
      /reads a request's body; only src\/http\/body\.ts may/,
    ],
    [
      "a type name of two files",
      { "src/ports/a.ts": "export interface Page {}", "adapters/a/page.ts": "export class Page {}" },
      /^adapters\/a\/page\.ts: declares the type Page, which src\/ports\/a\.ts also declares$/,
    ],
    [
      "a port that imports the kernel",
      { "src/ports/a.ts": 'import { x } from "../run/loop.js";', "src/run/loop.ts": "" },
      /ports imports src\/run\/loop\.ts of a higher layer \(run\)/,
    ],
    [
      "an error that imports the composition for a type",
      { "src/ports/errors.ts": 'import type { X } from "../serve/compose.js";', "src/serve/compose.ts": "" },
      /higher layer \(serve\)/,
    ],
    [
      "a kernel file that imports adapter.ts",
      { "src/run/loop.ts": 'import { OPTIONS } from "../plugin/adapter.js";', "src/plugin/adapter.ts": "" },
      /run imports src\/plugin\/adapter\.ts/,
    ],
    [
      "a tool that imports the config",
      { "src/tools/a.ts": 'import { c } from "../serve/config.js";', "src/serve/config.ts": "" },
      /tools imports src\/serve\/config\.ts/,
    ],
    [
      "composition that imports the command line",
      { "src/serve/compose.ts": 'import { c } from "../cli/main.js";', "src/cli/main.ts": "" },
      /serve imports src\/cli\/main\.ts/,
    ],
    ["a file without a room", { "src/loose.ts": "" }, /src\/loose\.ts: is in no module/],
    [
      "a submodule of the run that imports the run",
      { "src/run/queue/a.ts": 'import type { R } from "../loop.js";', "src/run/loop.ts": "" },
      /run\/queue imports src\/run\/loop\.ts of a higher layer \(run\)/,
    ],
    [
      "a circle of types",
      { "src/run/a.ts": 'import type { B } from "./b.js";', "src/run/b.ts": 'import type { A } from "./a.js";' },
      /import circle src\/run\/a\.ts -> src\/run\/b\.ts/,
    ],
    [
      "a kernel file that imports an adapter",
      { "src/agent/agent.ts": 'await import("../../adapters/a/index.js");', "adapters/a/index.ts": "" },
      /imports the adapter adapters\/a\/index\.ts/,
    ],
    [
      "composition that imports an adapter at once",
      { "src/serve/plugins.ts": 'import a from "../../adapters/a/index.js";', "adapters/a/index.ts": "" },
      /by import\(\)/,
    ],
    [
      "a kernel file that imports itself by name",
      { "src/agent/agent.ts": 'import { a } from "gantry";', "src/index.ts": "" },
      /its own package by name/,
    ],
    ["src that reaches outside", { "src/agent/agent.ts": 'import { a } from "../../test/a.js";' }, /outside src/],
    [
      "an adapter that imports a path into src",
      { "adapters/a/index.ts": 'import { a } from "../../src/agent/agent.js";' },
      /outside its own folder/,
    ],
    [
      "an adapter that imports another",
      { "adapters/a/index.ts": 'import { a } from "../b/index.js";' },
      /outside its own folder/,
    ],
    [
      "a strange adapter that imports acp-shared",
      { "adapters/koa/a.ts": 'import { a } from "../acp-shared/a.js";' },
      /outside its own folder/,
    ],
    [
      "an adapter that imports more than the public face",
      { "adapters/a/index.ts": 'import { a } from "gantry/testing";' },
      /"gantry", "gantry\/plugin", "gantry\/http" and "gantry\/client" alone/,
    ],
    [
      "a client that imports a package",
      { "adapters/koa-http-api/client/a.ts": 'import * as v from "valibot";' },
      /client\/a\.ts: imports valibot; the client runs in browsers/,
    ],
    [
      "a client that imports what its server does at run time",
      {
        "adapters/koa-http-api/client/a.ts": 'import { Run } from "../shapes.js";',
        "adapters/koa-http-api/shapes.ts": "",
      },
      /imports \.\.\/shapes\.js; the client runs in browsers/,
    ],
    [
      "a client that imports types of the kernel",
      { "adapters/koa-http-api/client/a.ts": 'import type { Agent } from "gantry";' },
      /imports gantry; the client runs in browsers/,
    ],
    [
      "a door for people that knows more than the client",
      { "adapters/terminal/view.ts": 'import { Agent } from "gantry";', "src/index.ts": "" },
      /built on "gantry\/client" alone/,
    ],
    [
      "a terminal that is loaded by anybody else",
      { "src/cli/serve.ts": 'await import("gantry/adapters/terminal");', "adapters/terminal/index.ts": "" },
      /imports the adapter adapters\/terminal/,
    ],
    [
      "a container outside of composition",
      { "src/run/start.ts": 'import { container } from "tsyringe";' },
      /imports tsyringe/,
    ],
    ["a container in an adapter", { "adapters/a/index.ts": 'import "reflect-metadata";' }, /imports reflect-metadata/],
    [
      "a tool that opens a path by itself",
      { "src/tools/files/read.ts": 'import { open } from "node:fs/promises";' },
      /src\/tools\/files\/read\.ts: takes open from node:fs\/promises; src\/files\/path-guard\.ts opens paths/,
    ],
    [
      "a prompt that reads a file by itself, later",
      { "src/run/prompt/system-prompt.ts": 'const fs = () => import("node:fs");' },
      /takes all of it from node:fs/,
    ],
    [
      "a tool that opens paths",
      { "src/tools/files/list.ts": 'import { stat, readFile } from "fs/promises";' },
      /takes stat, readFile from fs\/promises/,
    ],
    ["process.env", { "src/base/log.ts": "const a = process.env.DEBUG;" }, /src\/base\/log\.ts: reads process\.env/],
    ["process.env by name", { "adapters/a/b.ts": 'const a = globalThis.process["env"];' }, /reads process\.env/],
    ["process.env taken apart", { "src/base/log.ts": "const { env } = process;" }, /reads process\.env/],
    ["process.env imported", { "src/base/log.ts": 'import { env as e } from "node:process";' }, /reads process\.env/],
    ["console", { "src/base/log.ts": 'console.log("x");' }, /uses console/],
    ["console by globalThis", { "adapters/a/b.ts": 'globalThis.console.log("x");' }, /uses console/],
    ["a wire word as a key", { "src/agent/agent.ts": "const a = { session_id: 1 };" }, /wire word session_id/],
    ["a wire word as a text", { "src/run/a.ts": 'const a = "text/event-stream";' }, /wire word text\/event-stream/],
    ["a status code that is set", { "src/run/a.ts": "response.statusCode = 404;" }, /wire word statusCode/],
    [
      "an example that imports a package",
      { "examples/a.ts": 'import Koa from "koa";' },
      /examples import "gantry" alone/,
    ],
    [
      "an example that imports a path",
      { "examples/a.ts": 'import { a } from "../src/index.js";' },
      /examples import "gantry" alone/,
    ],
    [
      "a circle",
      {
        "src/run/a.ts": 'import { b } from "./b.js";',
        "src/run/b.ts": 'export * from "./c.js";',
        "src/run/c.ts": 'import "./a.js";',
      },
      /import circle src\/run\/a\.ts -> src\/run\/b\.ts -> src\/run\/c\.ts -> src\/run\/a\.ts/,
    ],
    [
      "a circle through the public face",
      { "adapters/a/index.ts": 'import { x } from "gantry";', "src/index.ts": 'import "../adapters/a/index.js";' },
      /import circle/,
    ],
    ["a default export", { "src/a.ts": "export default class A {}" }, /default export/],
    ["a default export of an expression", { "adapters/a/wire.ts": "export default 1;" }, /default export/],
    ["a renamed default export", { "src/a.ts": "const a = 1; export { a as default };" }, /default export/],
    [
      "a provider's file that asks by itself",
      { "adapters/language-models/a.ts": "const a = await fetch(url);" },
      /a\.ts: asks another server by itself/,
    ],
    [
      "a provider's file that takes the global fetch",
      { "adapters/language-models/a.ts": "const ask = globalThis.fetch;" },
      /asks another server by itself/,
    ],
    [
      "a provider's file with connections of its own",
      { "adapters/language-models/a.ts": 'const { request } = await import("undici");' },
      /asks another server by itself/,
    ],
    [
      "a provider's file with the platform's connections",
      { "adapters/language-models/a.ts": 'import { request } from "node:https";' },
      /asks another server by itself/,
    ],
    ["a kernel file that asks", { "src/a.ts": "const a = await fetch(url);" }, /asks another server by itself/],
    [
      "a body without a limit",
      { "adapters/language-models/a.ts": "const a = (r: Response) => r.json();" },
      /reads a body whole; only adapters\/language-models\/bodies\.ts may/,
    ],
    [
      "a body without a limit in the kernel",
      { "src/a.ts": "const a = async (r: Response) => JSON.parse(await r.text());" },
      /reads a body whole/,
    ],
    [
      "a heavy package at the start",
      { "src/cli/main.ts": 'import { a } from "./a.js";', "src/cli/a.ts": 'import { z } from "zod";' },
      /zod is loaded at the start of src\/cli\/main\.ts/,
    ],
    [
      "a heavy package by a self-import",
      { "src/cli/main.ts": 'import { a } from "./a.js";', "src/cli/a.ts": 'export * from "better-sqlite3";' },
      /better-sqlite3 is loaded at the start/,
    ],
    [
      "a heavy package at an adapter's start",
      {
        "adapters/a/index.ts": 'import { a } from "./a.js";',
        "adapters/a/a.ts": 'import { p } from "@ai-sdk/openai";',
      },
      /@ai-sdk\/openai is loaded at the start of adapters\/a/,
    ],
    [
      "a parser of foreign text on the main thread",
      { "src/tools/a.ts": 'const parse = async () => (await import("htmlparser2")).Parser;' },
      /imports htmlparser2; foreign input is parsed in src\/untrusted/,
    ],
    [
      "a thread without limits",
      { "src/tools/a.ts": 'import { Worker } from "node:worker_threads";' },
      /imports node:worker_threads; threads are started in/,
    ],
    [
      "a matcher of foreign patterns on the main thread",
      { "src/tools/a.ts": 'import { compileGlob } from "../untrusted/globs.js";', "src/untrusted/search/globs.ts": "" },
      /imports src\/untrusted\/globs\.ts, which runs in a thread alone/,
    ],
    [
      "the same behind the door",
      { "src/untrusted/workers.ts": 'import { pageText } from "./html/page.js";', "src/untrusted/html/page.ts": "" },
      /workers\.ts: imports src\/untrusted\/html\/page\.ts, which runs in a thread alone/,
    ],
    [
      "the start of a thread as a part of something else",
      { "src/untrusted/a.ts": 'import "./x-worker.js";', "src/untrusted/x-worker.ts": "" },
      /imports src\/untrusted\/x-worker\.ts, the start of a thread/,
    ],
    [
      "a regular expression of somebody else",
      { "src/tools/a.ts": "const find = (pattern: string) => new RegExp(pattern);" },
      /makes a regular expression of a value/,
    ],
  ];
  for (const [what, files, fault] of wrong) {
    it(what, () => {
      const reportedFaults = faults(files);
      assert.ok(
        reportedFaults.some((line) => fault.test(line)),
        `${String(fault)} not in ${JSON.stringify(reportedFaults)}`,
      );
    });
  }

  it("and lets pass what is right", () => {
    assert.deepEqual(
      faults({
        "src/plugin/transport.ts": 'import type { Agent } from "../agent/agent.js";',
        "src/agent/agent.ts":
          'import type { T } from "./ports/tool.js"; import { E } from "./ports/errors.js"; const a = { console: 1 };',
        "src/ports/errors.ts": "",
        "src/ports/tool.ts": "",
        "src/tools/shell/sandbox/sandbox.ts": 'import { realpath } from "node:fs/promises";',
        "src/tools/files/read.ts": 'import type { Stats } from "node:fs";',
        "src/plugin/adapter.ts": 'import type { Agent } from "../agent/agent.js";',
        "src/plugin/decorators.ts": 'import "reflect-metadata";',
        "src/serve/container.ts": 'import { container } from "tsyringe";',
        "src/serve/plugins.ts": 'const a = () => import("../../adapters/a/index.js");',
        "src/serve/environment.ts": "const a = process.env;",
        "adapters/language-models/connections.ts":
          'const proxy = process.env.https_proxy; const { default: u } = await import("undici"); const f: typeof globalThis.fetch = u.fetch; await fetch(1);',
        "adapters/language-models/bodies.ts": "const a = async (r: Response) => await r.text();",
        "adapters/language-models/b.ts":
          "type F = typeof globalThis.fetch; const a = (fetch: F) => async () => await fetch(1);",
        "src/tools/shell/bash.ts": "const t = output.text();",
        "src/tools/web/webfetch.ts":
          'const { fetch } = (await import("undici")).default; await (await fetch(1)).text();',
        "src/cli/main.ts": 'import { c } from "./serve/compose.js"; console.log(1); const a = () => import("zod");',
        "src/http/http-host.ts": "response.statusCode = 403;",
        "src/http/index.ts": "",
        "src/untrusted/workers.ts":
          'import type { W } from "./html/page.js"; const w = () => import("node:worker_threads");',
        "src/untrusted/html/page.ts": 'import { Parser } from "htmlparser2"; const r = new RegExp(x);',
        "src/tools/files/list.ts":
          'import { withThread } from "../untrusted/workers.js"; import type { W } from "../untrusted/html/page.js"; const r = RegExp("a");',
        "src/index.ts": 'export { A } from "./agent.js";',
        "adapters/a/index.ts":
          'import { a } from "gantry"; import { h } from "gantry/http"; import { b } from "./b.js"; import Koa from "koa"; export default a;',
        "adapters/a/b.ts": 'import type { Database } from "better-sqlite3"; const w = { session_id: 1 };',
        "adapters/koa-http-api/shapes.ts": 'import * as v from "valibot";',
        "adapters/koa-http-api/client/index.ts": 'import type { Run } from "../shapes.js"; import { b } from "./b.js";',
        "adapters/koa-http-api/client/b.ts": "",
        "adapters/a/c.ts": 'import { GantryClient } from "gantry/client";',
        "adapters/acp-stdio/index.ts": 'import { a } from "../acp-shared/index.js";',
        "adapters/acp-shared/index.ts": "",
        "examples/a.ts": 'import { Agent } from "gantry"; import { d } from "gantry/adapters/a"; import "node:fs";',
      }),
      [],
    );
  });
});
