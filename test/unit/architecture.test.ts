import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { findArchitectureFaults } from "../helpers/architecture.js";
import { parseSources } from "../helpers/architecture/modules.js";
import { ROOT } from "../helpers/source-paths.js";
import { MAX_FUNCTION_LINES, findLongFunctions } from "../helpers/source-size.js";

/** A longer file usually has two reasons to change. */
const MAX_FILE_LINES = 300;

function readSources(): Map<string, string> {
  const textsByPath = new Map<string, string>();
  const walk = (folder: string): void => {
    for (const entry of readdirSync(path.join(ROOT, folder), { withFileTypes: true })) {
      const file = `${folder}/${entry.name}`;
      if (entry.isDirectory()) walk(file);
      else if (/\.tsx?$/.test(entry.name)) textsByPath.set(file, readFileSync(path.join(ROOT, file), "utf8"));
    }
  };
  for (const folder of ["src", "adapters", "examples"]) walk(folder);
  return textsByPath;
}

describe("the repository", () => {
  const sources = readSources();
  const modules = parseSources(sources);

  it("follows the architecture rules in src, adapters and examples", () => {
    assert.deepEqual(findArchitectureFaults(modules), []);
  });

  it("has no file of src over 300 lines", () => {
    const longFiles = [...sources].filter(
      ([file, text]) => file.startsWith("src/") && text.split("\n").length - 1 > MAX_FILE_LINES,
    );
    assert.deepEqual(
      longFiles.map(([file]) => file),
      [],
    );
  });

  it("has no function over 60 lines, except those that contain JSX", () => {
    const findIn = (parsedModules: typeof modules): string[] =>
      [...parsedModules.values()].flatMap(({ file, ast }) => findLongFunctions(file, ast));
    assert.deepEqual(findIn(modules), []);
    const longFunction = `function f() {\n${"  g();\n".repeat(MAX_FUNCTION_LINES)}}`;
    assert.deepEqual(findIn(parseSources(new Map([["a.ts", longFunction]]))), ["a.ts:1 62 lines"]);
  });

  it("has only the allowed files and folders at its root", () => {
    const allowedNames = new Set(
      "package.json package-lock.json tsconfig.json src adapters examples test docs README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md dist node_modules".split(
        " ",
      ),
    );
    const unexpectedNames = readdirSync(ROOT).filter(
      (name) => !name.startsWith(".") && !allowedNames.has(name) && !name.endsWith(".tgz"),
    );
    assert.deepEqual(unexpectedNames, []);
  });

  it("lists exactly the folders of src and src/run in the module table of CONTRIBUTING.md", () => {
    const contributingText = readFileSync(path.join(ROOT, "CONTRIBUTING.md"), "utf8");
    const listFolders = (parent: string) =>
      readdirSync(path.join(ROOT, parent), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => `${parent}/${name}`);
    const section = /^## Modules\n([^]*?)^## /m.exec(contributingText)?.[1] ?? "";
    const tableFolders = [...section.matchAll(/^\| `(src\/[\w/-]+)` +\|/gm)].map(([, name]) => name);
    assert.deepEqual(tableFolders.sort(), [...listFolders("src"), ...listFolders("src/run")].sort());
  });

  it("names its source files in kebab-case", () => {
    const misnamedFiles = [...sources.keys()].filter(
      (file) => !/^(?:[a-z0-9]+(?:-[a-z0-9]+)*\/)*[a-z0-9]+(?:[-.][a-z0-9]+)*\.tsx?$/.test(file),
    );
    assert.deepEqual(misnamedFiles, []);
  });
});

describe("the architecture checker", () => {
  /** Returns the faults in a repository that has only these files. */
  const findFaults = (files: Record<string, string>): string[] =>
    findArchitectureFaults(parseSources(new Map(Object.entries(files))));

  const violations: [violation: string, files: Record<string, string>, faultPattern: RegExp][] = [
    [
      "an adapter that opens an HTTP port",
      { "adapters/a/index.ts": 'import { createServer } from "node:http";' },
      /opens an HTTP port; only src\/http\/http-host\.ts may/,
    ],
    [
      "an adapter that reads a request body",
      { "adapters/a/index.ts": "for await (const chunk of request.iterator()) use(chunk);" },
      /reads a request's body; only src\/http\/body\.ts may/,
    ],
    [
      "an adapter that imports koa-body",
      { "adapters/a/index.ts": 'const parser = import("koa-body");' },
      /reads a request's body; only src\/http\/body\.ts may/,
    ],
    [
      "a type name that two files declare",
      { "src/ports/a.ts": "export interface Page {}", "adapters/a/page.ts": "export class Page {}" },
      /^adapters\/a\/page\.ts: declares the type Page, which src\/ports\/a\.ts also declares$/,
    ],
    [
      "a file of src/ports that imports src/run",
      { "src/ports/a.ts": 'import { x } from "../run/loop.js";', "src/run/loop.ts": "" },
      /ports imports src\/run\/loop\.ts of a higher layer \(run\)/,
    ],
    [
      "a type import from src/ports/errors.ts to src/serve",
      { "src/ports/errors.ts": 'import type { X } from "../serve/compose.js";', "src/serve/compose.ts": "" },
      /higher layer \(serve\)/,
    ],
    [
      "a file of src/run that imports src/plugin",
      { "src/run/loop.ts": 'import { OPTIONS } from "../plugin/adapter.js";', "src/plugin/adapter.ts": "" },
      /run imports src\/plugin\/adapter\.ts/,
    ],
    [
      "a tool that imports src/serve",
      { "src/tools/a.ts": 'import { c } from "../serve/config.js";', "src/serve/config.ts": "" },
      /tools imports src\/serve\/config\.ts/,
    ],
    [
      "a file of src/serve that imports src/cli",
      { "src/serve/compose.ts": 'import { c } from "../cli/main.js";', "src/cli/main.ts": "" },
      /serve imports src\/cli\/main\.ts/,
    ],
    ["a file of src that is in no module", { "src/loose.ts": "" }, /src\/loose\.ts: is in no module/],
    [
      "a submodule of src/run that imports src/run",
      { "src/run/queue/a.ts": 'import type { R } from "../loop.js";', "src/run/loop.ts": "" },
      /run\/queue imports src\/run\/loop\.ts of a higher layer \(run\)/,
    ],
    [
      "an import cycle of types",
      { "src/run/a.ts": 'import type { B } from "./b.js";', "src/run/b.ts": 'import type { A } from "./a.js";' },
      /import circle src\/run\/a\.ts -> src\/run\/b\.ts/,
    ],
    [
      "a file of src/agent that imports an adapter",
      { "src/agent/agent.ts": 'await import("../../adapters/a/index.js");', "adapters/a/index.ts": "" },
      /imports the adapter adapters\/a\/index\.ts/,
    ],
    [
      "a static import of an adapter in src/serve/plugins.ts",
      { "src/serve/plugins.ts": 'import a from "../../adapters/a/index.js";', "adapters/a/index.ts": "" },
      /by import\(\)/,
    ],
    [
      "a file of src that imports its own package by name",
      { "src/agent/agent.ts": 'import { a } from "gantry";', "src/index.ts": "" },
      /its own package by name/,
    ],
    [
      "a file of src that imports a file outside src",
      { "src/agent/agent.ts": 'import { a } from "../../test/a.js";' },
      /outside src/,
    ],
    [
      "an adapter that imports a path into src",
      { "adapters/a/index.ts": 'import { a } from "../../src/agent/agent.js";' },
      /outside its own folder/,
    ],
    [
      "an adapter that imports another adapter",
      { "adapters/a/index.ts": 'import { a } from "../b/index.js";' },
      /outside its own folder/,
    ],
    [
      "an adapter other than ACP that imports acp-shared",
      { "adapters/koa/a.ts": 'import { a } from "../acp-shared/a.js";' },
      /outside its own folder/,
    ],
    [
      "an adapter that imports gantry/testing",
      { "adapters/a/index.ts": 'import { a } from "gantry/testing";' },
      /"gantry", "gantry\/plugin", "gantry\/http" and "gantry\/client" alone/,
    ],
    [
      "a client that imports a package",
      { "adapters/koa-http-api/client/a.ts": 'import * as v from "valibot";' },
      /client\/a\.ts: imports valibot; the client runs in browsers/,
    ],
    [
      "a client that imports code of its server, not only types",
      {
        "adapters/koa-http-api/client/a.ts": 'import { Run } from "../shapes.js";',
        "adapters/koa-http-api/shapes.ts": "",
      },
      /imports \.\.\/shapes\.js; the client runs in browsers/,
    ],
    [
      "a client that imports types of gantry",
      { "adapters/koa-http-api/client/a.ts": 'import type { Agent } from "gantry";' },
      /imports gantry; the client runs in browsers/,
    ],
    [
      "a user interface that imports more than gantry/client",
      { "adapters/terminal/view.ts": 'import { Agent } from "gantry";', "src/index.ts": "" },
      /built on "gantry\/client" alone/,
    ],
    [
      "an import of the terminal outside src/cli/chat.ts",
      { "src/cli/serve.ts": 'await import("gantry/adapters/terminal");', "adapters/terminal/index.ts": "" },
      /imports the adapter adapters\/terminal/,
    ],
    [
      "an import of the DI container outside src/plugin and src/serve",
      { "src/run/start.ts": 'import { container } from "tsyringe";' },
      /imports tsyringe/,
    ],
    [
      "an import of the DI container in an adapter",
      { "adapters/a/index.ts": 'import "reflect-metadata";' },
      /imports reflect-metadata/,
    ],
    [
      "a tool that imports open from node:fs/promises",
      { "src/tools/files/read.ts": 'import { open } from "node:fs/promises";' },
      /src\/tools\/files\/read\.ts: takes open from node:fs\/promises; src\/files\/path-guard\.ts opens paths/,
    ],
    [
      "a dynamic import of node:fs in src/run/prompt",
      { "src/run/prompt/system-prompt.ts": 'const fs = () => import("node:fs");' },
      /takes all of it from node:fs/,
    ],
    [
      "a tool that imports stat and readFile from fs/promises",
      { "src/tools/files/list.ts": 'import { stat, readFile } from "fs/promises";' },
      /takes stat, readFile from fs\/promises/,
    ],
    [
      "process.env outside the files that may read it",
      { "src/base/log.ts": "const a = process.env.DEBUG;" },
      /src\/base\/log\.ts: reads process\.env/,
    ],
    [
      "process.env as an indexed property",
      { "adapters/a/b.ts": 'const a = globalThis.process["env"];' },
      /reads process\.env/,
    ],
    ["process.env by destructuring", { "src/base/log.ts": "const { env } = process;" }, /reads process\.env/],
    [
      "an import of env from node:process",
      { "src/base/log.ts": 'import { env as e } from "node:process";' },
      /reads process\.env/,
    ],
    ["console outside src/cli/main.ts", { "src/base/log.ts": 'console.log("x");' }, /uses console/],
    ["console as a property of globalThis", { "adapters/a/b.ts": 'globalThis.console.log("x");' }, /uses console/],
    [
      "a wire protocol name as a key in src",
      { "src/agent/agent.ts": "const a = { session_id: 1 };" },
      /wire word session_id/,
    ],
    [
      "a wire protocol name as a string in src",
      { "src/run/a.ts": 'const a = "text/event-stream";' },
      /wire word text\/event-stream/,
    ],
    ["a status code that src sets", { "src/run/a.ts": "response.statusCode = 404;" }, /wire word statusCode/],
    [
      "an example that imports a package",
      { "examples/a.ts": 'import Koa from "koa";' },
      /examples import "gantry" alone/,
    ],
    [
      "an example that imports a relative path",
      { "examples/a.ts": 'import { a } from "../src/index.js";' },
      /examples import "gantry" alone/,
    ],
    [
      "an import cycle of three files",
      {
        "src/run/a.ts": 'import { b } from "./b.js";',
        "src/run/b.ts": 'export * from "./c.js";',
        "src/run/c.ts": 'import "./a.js";',
      },
      /import circle src\/run\/a\.ts -> src\/run\/b\.ts -> src\/run\/c\.ts -> src\/run\/a\.ts/,
    ],
    [
      "an import cycle through src/index.ts",
      { "adapters/a/index.ts": 'import { x } from "gantry";', "src/index.ts": 'import "../adapters/a/index.js";' },
      /import circle/,
    ],
    ["a default export of a class", { "src/a.ts": "export default class A {}" }, /default export/],
    ["a default export of an expression", { "adapters/a/wire.ts": "export default 1;" }, /default export/],
    ["a renamed default export", { "src/a.ts": "const a = 1; export { a as default };" }, /default export/],
    [
      "a model provider that calls fetch",
      { "adapters/language-models/a.ts": "const a = await fetch(url);" },
      /a\.ts: asks another server by itself/,
    ],
    [
      "a model provider that uses globalThis.fetch",
      { "adapters/language-models/a.ts": "const ask = globalThis.fetch;" },
      /asks another server by itself/,
    ],
    [
      "a model provider that imports undici",
      { "adapters/language-models/a.ts": 'const { request } = await import("undici");' },
      /asks another server by itself/,
    ],
    [
      "a model provider that imports node:https",
      { "adapters/language-models/a.ts": 'import { request } from "node:https";' },
      /asks another server by itself/,
    ],
    ["a file of src that calls fetch", { "src/a.ts": "const a = await fetch(url);" }, /asks another server by itself/],
    [
      "a model provider that reads a response body without a limit",
      { "adapters/language-models/a.ts": "const a = (r: Response) => r.json();" },
      /reads a body whole; only adapters\/language-models\/bodies\.ts may/,
    ],
    [
      "a file of src that reads a response body without a limit",
      { "src/a.ts": "const a = async (r: Response) => JSON.parse(await r.text());" },
      /reads a body whole/,
    ],
    [
      "a heavy package in the start path of the command",
      { "src/cli/main.ts": 'import { a } from "./a.js";', "src/cli/a.ts": 'import { z } from "zod";' },
      /zod is loaded at the start of src\/cli\/main\.ts/,
    ],
    [
      "a heavy package that a re-export adds to the start path",
      { "src/cli/main.ts": 'import { a } from "./a.js";', "src/cli/a.ts": 'export * from "better-sqlite3";' },
      /better-sqlite3 is loaded at the start/,
    ],
    [
      "a heavy package in the start path of an adapter",
      {
        "adapters/a/index.ts": 'import { a } from "./a.js";',
        "adapters/a/a.ts": 'import { p } from "@ai-sdk/openai";',
      },
      /@ai-sdk\/openai is loaded at the start of adapters\/a/,
    ],
    [
      "a parser of third-party text on the main thread",
      { "src/tools/a.ts": 'const parse = async () => (await import("htmlparser2")).Parser;' },
      /imports htmlparser2; foreign input is parsed in src\/untrusted/,
    ],
    [
      "a worker thread that is started outside src/untrusted",
      { "src/tools/a.ts": 'import { Worker } from "node:worker_threads";' },
      /imports node:worker_threads; threads are started in/,
    ],
    [
      "a matcher of third-party patterns on the main thread",
      { "src/tools/a.ts": 'import { compileGlob } from "../untrusted/globs.js";', "src/untrusted/search/globs.ts": "" },
      /imports src\/untrusted\/globs\.ts, which runs in a thread alone/,
    ],
    [
      "a runtime import from workers.ts to code for worker threads",
      { "src/untrusted/workers.ts": 'import { pageText } from "./html/page.js";', "src/untrusted/html/page.ts": "" },
      /workers\.ts: imports src\/untrusted\/html\/page\.ts, which runs in a thread alone/,
    ],
    [
      "an import of the entry file of a worker thread",
      { "src/untrusted/a.ts": 'import "./x-worker.js";', "src/untrusted/x-worker.ts": "" },
      /imports src\/untrusted\/x-worker\.ts, the start of a thread/,
    ],
    [
      "a regular expression that is compiled from a value",
      { "src/tools/a.ts": "const find = (pattern: string) => new RegExp(pattern);" },
      /makes a regular expression of a value/,
    ],
  ];
  for (const [violation, files, faultPattern] of violations) {
    it(`rejects ${violation}`, () => {
      const reportedFaults = findFaults(files);
      assert.ok(
        reportedFaults.some((line) => faultPattern.test(line)),
        `${String(faultPattern)} not in ${JSON.stringify(reportedFaults)}`,
      );
    });
  }

  it("accepts valid imports, exports and statements", () => {
    assert.deepEqual(
      findFaults({
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
