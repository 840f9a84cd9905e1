import ts from "typescript";
import type { Module } from "./modules.js";

/** Packages that must not be loaded before the server listens: each costs more than the kernel. */
const HEAVY_PACKAGES =
  /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|lowdb$|lowdb\/|@pydantic\/|jsonc-parser$|import-meta-resolve$|typescript$|esbuild$)/;
/** Packages that an adapter may not load at its start. The others are permitted, because the adapter was chosen. */
const HEAVY_ADAPTER_PACKAGES = /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|@pydantic\/)/;

/** Exported types that another file also declares. A reader who sees the name alone cannot tell which one is meant. */
export function findRepeatedTypeNames(modules: ReadonlyMap<string, Module>): string[] {
  const filesByName = new Map<string, string[]>();
  for (const { file, ast } of modules.values()) {
    for (const node of ast.statements) {
      if (!ts.isInterfaceDeclaration(node) && !ts.isTypeAliasDeclaration(node) && !ts.isClassDeclaration(node))
        continue;
      if (!node.name || !node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue;
      filesByName.set(node.name.text, [...(filesByName.get(node.name.text) ?? []), file]);
    }
  }
  return [...filesByName].flatMap(([name, [firstFile, ...laterFiles]]) =>
    laterFiles.map((file) => `${file}: declares the type ${name}, which ${firstFile} also declares`),
  );
}

/** Import cycles, including type-only imports, which couple files as well. A file may import itself in a type. */
export function findImportCycles(modules: ReadonlyMap<string, Module>): string[] {
  const faults = new Set<string>();
  const visitedFiles = new Set<string>();
  const currentPath: string[] = [];
  const visit = (file: string): void => {
    const cycleStart = currentPath.indexOf(file);
    if (cycleStart !== -1) {
      const cycle = currentPath.slice(cycleStart);
      const firstIndex = cycle.indexOf([...cycle].sort()[0] ?? "");
      const rotatedCycle = [...cycle.slice(firstIndex), ...cycle.slice(0, firstIndex)];
      faults.add(`${rotatedCycle[0]}: import circle ${[...rotatedCycle, rotatedCycle[0]].join(" -> ")}`);
      return;
    }
    if (visitedFiles.has(file)) return;
    currentPath.push(file);
    for (const { target, isDynamic } of modules.get(file)?.imports ?? []) {
      if (target !== undefined && target !== file && !isDynamic && modules.has(target)) visit(target);
    }
    currentPath.pop();
    visitedFiles.add(file);
  };
  for (const file of modules.keys()) visit(file);
  return [...faults];
}

/** Packages that are loaded together with the command line, or with an enabled adapter. */
export function findStartFaults(modules: ReadonlyMap<string, Module>): string[] {
  const faults: string[] = [];
  const roots: [string, RegExp][] = [
    ["src/cli/main.ts", HEAVY_PACKAGES],
    ["src/cli/dispatch.ts", HEAVY_PACKAGES],
    ["src/cli/serve.ts", HEAVY_PACKAGES],
  ];
  for (const file of modules.keys()) {
    if (/^adapters\/[^/]+\/index\.ts$/.test(file)) roots.push([file, HEAVY_ADAPTER_PACKAGES]);
  }
  for (const [root, heavyPackages] of roots) {
    if (!modules.has(root)) continue;
    const pathByFile = new Map<string, string>([[root, ""]]);
    for (const [file, importPath] of pathByFile) {
      for (const { specifier, target, isTypeOnly, isDynamic } of modules.get(file)?.imports ?? []) {
        if (isTypeOnly || isDynamic) continue;
        if (heavyPackages.test(specifier))
          faults.push(`${file}: ${specifier} is loaded at the start of ${root}${importPath}`);
        if (target !== undefined && !pathByFile.has(target)) pathByFile.set(target, `${importPath} via ${file}`);
      }
    }
  }
  return faults;
}
