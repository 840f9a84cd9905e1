// Each mutant is a driver or a set of database functions with one fault. The named driver check must always fail.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChangeResult, SessionChange } from "gantry/plugin";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { runAsAdmin, NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import { CommitBlocker } from "./hold.js";

/** A function name, a part of its SQL text, and the replacement. */
type Edit = readonly [name: string, pattern: string | RegExp, replacement: string | ((match: string) => string)];

interface Mutant {
  /** Completes "a driver that ...". */
  fault: string;
  /** Name of the check that must fail. */
  check: string;
  /** Code of the error with which the check fails. Default: the code of an assertion error. */
  code?: string;
  edits?: readonly Edit[];
  /** Statements that run before the edits. `@.` stands for the schema. */
  sql?: readonly string[];
  /** Default: PostgresDriver. */
  Driver?: typeof PostgresDriver;
}

const LEASE_CHECK = "race: a write completes before its lease is replaced and is part of the head, or it is rejected";
const HOLDER_CHECK = "race: of concurrent lease requests one succeeds, and the others receive its holder";
const CHANGES_CHECK = "race: concurrent changes of a chain are all kept";
const DELETE_CHECK = "race: a deleted chain leaves nothing, whatever runs concurrently";
const OWNER_CHECK = "race: an id, an alias, an index and a run's key have one owner";
const LOADS_CHECK = "race: of two loads with common ids one succeeds, and the other has no effect";
const SINGLE_USE_CHECK =
  "race: one answer to an ask is accepted, an instruction is removed once, and instructions keep their order";
const INSTRUCTION_CHECK =
  "race: an instruction is returned by the write that releases the lease, or is written after it";
const TOTALS_CHECK = "race: totals are correct after concurrent creates, deletes and moves";
const GROWTH_CHECK = "load: a growing message keeps its text and can grow further, part by part, until it is finished";

/** The statement of `write` that locks the row of the chain, and a statement that only reads it. */
const LOCK_STATEMENT =
  /UPDATE @\.chains o SET tokens[\s\S]*?RETURNING o\.chain, o\.root, n\.idx INTO v_chain, v_root, v_idx;/;
const READ_STATEMENT = `SELECT o.chain, o.root, n.idx INTO v_chain, v_root, v_idx FROM @.names n JOIN @.chains o ON o.chain = n.chain
   WHERE n.name = p_id AND NOT n.alias AND (p_fence IS NULL OR o.fence = p_fence);`;
const UNLOCKED_WRITE: Edit = ["write", LOCK_STATEMENT, READ_STATEMENT];
/** Like `UNLOCKED_WRITE`, but only for changes with this field. */
const unlockWritesWith = (field: string): Edit => [
  "write",
  LOCK_STATEMENT,
  (lockStatement) => `IF p_change->'${field}' IS NOT NULL THEN ${READ_STATEMENT} ELSE ${lockStatement} END IF;`,
];
const UNLOCKED_DELETE: Edit = ["delete", " ORDER BY o.chain FOR UPDATE", " ORDER BY o.chain"];

const MUTANTS: readonly Mutant[] = [
  { fault: "reads the lease without a lock before it writes", check: LEASE_CHECK, edits: [UNLOCKED_WRITE] },
  {
    fault: "reads the lease without a lock before it creates a follow-up",
    check: LEASE_CHECK,
    edits: [
      ["create", "AND NOT n.alias) FOR UPDATE", "AND NOT n.alias)"],
      ["create", /UPDATE @\.chains o SET tokens[\s\S]*?WHERE o\.chain = c\.chain;/, ""],
    ],
  },
  {
    fault: "adds to a usage that it read without a lock",
    check: CHANGES_CHECK,
    edits: [
      UNLOCKED_WRITE,
      [
        "set",
        "prompt_tokens = s.prompt_tokens +",
        "prompt_tokens = (SELECT o.prompt_tokens FROM @.sessions o WHERE o.chain = p_chain AND o.idx = s.idx) +",
      ],
    ],
  },
  {
    fault: "writes back a title that it read without a lock",
    check: CHANGES_CHECK,
    edits: [
      UNLOCKED_WRITE,
      [
        "set",
        "coalesce(x.title, s.title)",
        "coalesce(x.title, (SELECT o.title FROM @.sessions o WHERE o.chain = p_chain AND o.idx = s.idx))",
      ],
    ],
  },
  {
    fault: "reads a dump in several snapshots of the database",
    check: "race: a dump contains a concurrent change completely or not at all",
    edits: [["dump", " STABLE", ""]],
  },
  {
    fault: "reads the head in several snapshots of the database",
    check: "race: the head contains a concurrent change completely or not at all",
    edits: [["head", " STABLE", ""]],
  },
  {
    fault: "raises lastSeq in a revert, but not in a restore",
    check: "restore: the session that becomes the newest has the chain's lastSeq",
    edits: [["write", "IF x.cut IS NOT NULL OR x.restore IS NOT NULL THEN", "IF x.cut IS NOT NULL THEN"]],
  },
  {
    fault: "omits the appended text of a growing message from a dump",
    check: GROWTH_CHECK,
    edits: [["dump", /CASE WHEN m\.finished THEN NULL ELSE[\s\S]*? END\n/, "NULL::text\n"]],
  },
  {
    fault: "rejects appends to a message that was loaded",
    check: GROWTH_CHECK,
    code: "point_not_found",
    edits: [
      [
        "create",
        "SELECT c.chain, t.seq, t.idx, t.finished,",
        "SELECT c.chain, t.seq, t.idx, t.finished OR coalesce(x.load, false),",
      ],
    ],
  },
  {
    fault: "replaces a lease 5 s before it expires",
    check: "lease: cannot be taken before it expires, however short it is",
    edits: [["lease", "c.expires > v_now", "c.expires > v_now + 5000"]],
  },
  {
    fault: "replaces any lease if `fenceToReplace` is given",
    check: "lease: `fenceToReplace` replaces the lease of that fence at once, and no other",
    edits: [["lease", "c.fence IS DISTINCT FROM p_replacing", "p_replacing IS NULL"]],
  },
  {
    fault: "returns the head as it was before it acquired the lease",
    check: LEASE_CHECK,
    edits: [
      ["lease", "v_mine boolean;", "v_mine boolean;\n    v_head json;"],
      [
        "lease",
        "  LOOP",
        `    v_head := (SELECT json_agg(h) FROM @.head@v((SELECT n.chain FROM @.names n WHERE n.name = p_id), p_messages) h);
    LOOP`,
      ],
      [
        "lease",
        /SELECT \* FROM @\.head@v\(c\.chain,.*\);/,
        `SELECT t.* FROM json_to_recordset(v_head) AS t (kind text, seq bigint, idx integer, done boolean, tag text, body text,
          more text, gained text);`,
      ],
    ],
  },
  {
    fault: "grants a lease to two concurrent requests",
    check: HOLDER_CHECK,
    edits: [["lease", / FOR UPDATE;/g, ";"]],
  },
  {
    fault: "releases the lease although it rejects the change",
    check: "write: a rejected change never releases the lease",
    Driver: class extends PostgresDriver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        try {
          return await super.write(id, change);
        } catch (error) {
          const { fence } = change;
          if (change.release && fence !== null) await super.write(id, { fence, sync: false, release: true });
          throw error;
        }
      }
    },
  },
  {
    fault: "returns `previous` after a change without a lease",
    check: "lease: `previous`, if returned, is the fence of the chain's last lease; it is undefined after a delete",
    edits: [["write", "last = CASE WHEN p_says AND p_fence IS NULL THEN NULL ELSE o.last END", "last = o.last"]],
  },
  {
    fault: "stores an instruction without a lock beside a write that releases the lease",
    check: INSTRUCTION_CHECK,
    edits: [unlockWritesWith("instruct")],
  },
  {
    fault: "withdraws an instruction without a lock beside a write that releases the lease",
    check: INSTRUCTION_CHECK,
    edits: [unlockWritesWith("followed")],
  },
  {
    fault: "withdraws an instruction twice",
    check: SINGLE_USE_CHECK,
    edits: [
      unlockWritesWith("followed"),
      [
        "change_instructions",
        /AND i\.withdrawn IS NULL(?=\s+AND i\.id IN)/,
        "AND (SELECT o.withdrawn FROM @.instructions o WHERE o.id = i.id) IS NULL",
      ],
    ],
  },
  {
    fault: "counts two answers to an ask",
    check: SINGLE_USE_CHECK,
    edits: [
      unlockWritesWith("answer"),
      ["write", "AND a.state = 'open';", "AND (SELECT o.state FROM @.asks o WHERE o.id = a.id) = 'open';"],
    ],
  },
  {
    fault: "numbers concurrent instructions without a lock",
    check: SINGLE_USE_CHECK,
    edits: [unlockWritesWith("instruct")],
  },
  { fault: "deletes a chain that it did not lock", check: DELETE_CHECK, edits: [UNLOCKED_DELETE] },
  {
    fault: "changes the totals for a chain that it deletes without a lock",
    check: TOTALS_CHECK,
    edits: [UNLOCKED_DELETE],
  },
  {
    fault: "writes back a total that it read without a lock",
    check: TOTALS_CHECK,
    edits: [
      ["count", /p_shard(?! integer)/g, "0"],
      [
        "count",
        "n = t.n + excluded.n",
        "n = (SELECT o.n FROM @.totals o WHERE o.scope = excluded.scope AND o.shard = 0) + excluded.n",
      ],
    ],
  },
  {
    fault: "checks the key of a run without a unique index",
    check: OWNER_CHECK,
    sql: ["DROP INDEX @.runs_key"],
    edits: [
      [
        "put_runs",
        /IF NOT FOUND THEN/,
        "IF (SELECT count(*) FROM @.runs o WHERE o.key = r.key AND r.key <> '') > 1 THEN",
      ],
    ],
  },
  ...(
    [
      ["created", OWNER_CHECK],
      ["loaded", LOADS_CHECK],
    ] as const
  ).map(([state, check]) => ({
    fault: `checks the id of a ${state} session without a unique index`,
    check,
    sql: ["ALTER TABLE @.names DROP CONSTRAINT names_pkey"],
    edits: [
      [
        "create",
        /IF NOT FOUND THEN(?=\s+RAISE EXCEPTION 'session exists' USING ERRCODE = 'GN001', DETAIL = s\.id)/,
        "IF (SELECT count(*) FROM @.names o WHERE o.name = s.id) > 1 THEN",
      ],
      [
        "create",
        /IF NOT FOUND THEN(?=\s+RAISE EXCEPTION 'session exists' USING ERRCODE = 'GN001', DETAIL = s\.alias)/,
        "IF (SELECT count(*) FROM @.names o WHERE o.name = s.alias) > 1 THEN",
      ],
    ] as const,
  })),
];

/** Applies the faults to the functions of a schema. */
async function mutate(
  { url, schema }: { url: string; schema: string },
  { edits = [], sql = [] }: Mutant,
): Promise<void> {
  const insertSchema = (text: string): string => text.replaceAll("@.", `"${schema}".`);
  await runAsAdmin(url, ...sql.map(insertSchema));
  for (const [name, pattern, replacement] of edits) {
    const [functionRow] = await runAsAdmin(
      url,
      `SELECT pg_get_functiondef(oid) AS text, substring(proname FROM '_[0-9a-f]{8}$') AS version FROM pg_proc
       WHERE pronamespace = '${schema}'::regnamespace AND proname ~ '^${name}_[0-9a-f]{8}$'`,
    );
    assert.ok(functionRow, `there is no function ${name}`);
    const { text, version } = functionRow as { text: string; version: string };
    const originalText = text.replaceAll(`"${schema}".`, "@.").replaceAll(version, "@v");
    const mutatedText = originalText.replace(pattern, (match) =>
      typeof replacement === "string" ? replacement : replacement(match),
    );
    assert.notEqual(mutatedText, originalText, `${name} has no ${pattern}`);
    await runAsAdmin(url, insertSchema(mutatedText).replaceAll("@v", version));
  }
}

describe("the SessionDriver checks", { skip: NO_POSTGRES }, () => {
  for (const mutant of MUTANTS)
    it(`rejects a driver that ${mutant.fault}`, async (t) => {
      const address = await createPostgresSchema(t);
      const commitBlocker = new CommitBlocker(address);
      const openDriver = async (): Promise<PostgresDriver> => {
        const driver = new (mutant.Driver ?? PostgresDriver)(postgresOptions(address, { durability: "normal" }));
        await driver.open();
        return driver;
      };
      const checks = sessionDriverChecks({
        create: openDriver,
        second: openDriver,
        reopen: openDriver,
        clean: () => commitBlocker.close(),
        hold: (part) => commitBlocker.hold(part),
      });
      await (await openDriver()).close();
      await mutate(address, mutant);
      const check = checks.find(({ name }) => name === mutant.check);
      assert.ok(check, `there is no check named ${mutant.check}`);
      const expectedError = mutant.check.startsWith("race:")
        ? /fits neither order/
        : { code: mutant.code ?? "ERR_ASSERTION" };
      await assert.rejects(check.run(), expectedError);
    });
});
