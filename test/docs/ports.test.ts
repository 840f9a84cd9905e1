import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import ts from "typescript";
import { ROOT } from "../helpers/source-paths.js";

/** Ports without a method: their functions are properties, or they are an iterable with properties. */
const PORTS_WITHOUT_METHODS = ["Hooks", "Run"];
const PORT_FILES = [...listSources("src/ports"), "src/plugin/transport.ts"];

/** A row of the first table of the page. */
interface PortRow {
  port: string;
  /** As in the page: `name`, `open()`, `notifier?`, `synced?()`. */
  members: string[];
  /** Folders whose code uses the members. */
  users: string[];
}

function listSources(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join("/"));
}

function readRows(): PortRow[] {
  const page = readFileSync(path.join(ROOT, "docs/ports.md"), "utf8");
  const rows: PortRow[] = [];
  for (const [, firstCell = "", memberCell = "", userCell = ""] of page.matchAll(
    /^\| (?:`(\w+)`)? *\| (`[^|]+`) *\| ([^|]+) \|$/gm,
  )) {
    const readNames = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    const users = readNames(userCell).filter((name) => /^(src|adapters)\b/.test(name));
    rows.push({ port: firstCell || (rows.at(-1)?.port ?? ""), members: readNames(memberCell), users });
  }
  return rows;
}

/** The interfaces of the files, with their members as the page writes them. */
function readInterfaces(
  files: readonly string[],
): Map<string, { file: string; members: string[]; hasMethod: boolean }> {
  const interfaces = new Map<string, { file: string; members: string[]; hasMethod: boolean }>();
  for (const file of files) {
    const ast = ts.createSourceFile(file, readFileSync(path.join(ROOT, file), "utf8"), ts.ScriptTarget.Latest, true);
    for (const statement of ast.statements.filter(ts.isInterfaceDeclaration)) {
      const members = statement.members.flatMap((member) => {
        if (!member.name || !(ts.isMethodSignature(member) || ts.isPropertySignature(member))) return [];
        const suffix = `${member.questionToken ? "?" : ""}${ts.isMethodSignature(member) ? "()" : ""}`;
        return [member.name.getText() + suffix];
      });
      const hasMethod = statement.members.some(ts.isMethodSignature);
      interfaces.set(statement.name.text, { file, members, hasMethod });
    }
  }
  return interfaces;
}

describe("docs/ports.md", () => {
  const rows = readRows();
  const interfaces = readInterfaces(PORT_FILES);
  const documentedPorts = [...new Set(rows.map(({ port }) => port))];

  it("has each port of the source", () => {
    const ports = [...interfaces].filter(([, { hasMethod }]) => hasMethod).map(([name]) => name);
    assert.deepEqual(documentedPorts.toSorted(), [...ports, ...PORTS_WITHOUT_METHODS].toSorted());
  });

  for (const port of documentedPorts)
    it(`has each member of ${port}, once`, () => {
      const members = rows.filter((row) => row.port === port).flatMap((row) => row.members);
      assert.deepEqual(members.toSorted(), interfaces.get(port)?.members.toSorted());
    });

  it("names the file of each port", () => {
    const page = readFileSync(path.join(ROOT, "docs/ports.md"), "utf8");
    const filesByPort = new Map<string, string>();
    for (const [, names = "", file = ""] of page.matchAll(/^\| (`[^|]+`) +\| `(src\/[\w/.-]+\.ts)` +\|$/gm))
      for (const [, name = ""] of names.matchAll(/`(\w+)`/g)) filesByPort.set(name, file);
    const expectedFiles = documentedPorts.map((port) => [port, interfaces.get(port)?.file]);
    assert.deepEqual([...filesByPort].toSorted(), expectedFiles.toSorted());
  });

  it("names only folders whose code uses the members", () => {
    const textsByFolder = new Map<string, string>();
    const readFolder = (folder: string): string => {
      const files = listSources(folder).filter((file) => !PORT_FILES.includes(file));
      return files.map((file) => readFileSync(path.join(ROOT, file), "utf8")).join("\n");
    };
    for (const { members, users } of rows)
      for (const folder of users) {
        const text = textsByFolder.get(folder) ?? readFolder(folder);
        textsByFolder.set(folder, text);
        for (const member of members.map((name) => name.replace(/\W/g, "")))
          assert.ok(new RegExp(`\\b${member}\\b`).test(text), `${folder} does not use ${member}`);
      }
  });
});
