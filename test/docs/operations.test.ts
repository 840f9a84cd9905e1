import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { it } from "node:test";
import { METRICS, toPrometheusName } from "../../adapters/telemetry/metrics.js";
import { ROOT } from "../helpers/source-paths.js";

const readText = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

it("docs/operations.md has a remedy for each reason of /api/ready", () => {
  const page = readText("docs/operations.md");
  const [, codeType = ""] = /\bcode: ([^;]+);/.exec(readText("src/ports/readiness.ts")) ?? [];
  const codes = [...codeType.matchAll(/"(\w+)"/g)].map(([, code = ""]) => code);
  assert.ok(codes.length >= 6, codeType);
  const documentedCodes = [...page.matchAll(/^\| `(\w+)` +\|[^|]+\|[^|]+\|$/gm)].map(([, code = ""]) => code);
  assert.deepEqual(
    documentedCodes.filter((code) => !["sqlite", "postgres", "json"].includes(code)).sort(),
    codes.sort(),
  );
});

it("the pages document each metric, and name no other metric", () => {
  const pages = readdirSync(path.join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  const namedMetrics = pages.flatMap((name) => readText(`docs/${name}`).match(/\b(gantry|gen_ai_client)_\w+/g) ?? []);
  assert.deepEqual(
    [...new Set(namedMetrics)].sort(),
    Object.values(METRICS)
      .map((metric): string => toPrometheusName(metric))
      .sort(),
  );
});
