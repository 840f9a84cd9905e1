import assert from "node:assert/strict";
import { it } from "node:test";
import { formatCost } from "../../../src/cli/table.js";

it("a cost is shown in dollars, and tokens without a cost as those of a model without a known price", () => {
  const createUsage = (cost: number, totalTokens: number) => ({
    ...{ cost, totalTokens },
    ...{ promptTokens: totalTokens, completionTokens: 0 },
  });
  assert.equal(formatCost(createUsage(0.01234, 10), "openai"), "$0.0123");
  assert.equal(formatCost(createUsage(2, 10), "openai"), "$2.00");
  assert.equal(formatCost(createUsage(0, 0), ""), "$0.00");
  assert.equal(formatCost(createUsage(0, 10), "openai"), "no price known");
  assert.equal(formatCost(createUsage(0, 10), "offline"), "$0.00");
});
