// Types sentences in random schedules of prompts, instructions, stops, reloads and server kills. Each sentence must be in
// a message, in the prompt field or in a list of unsent texts. SCHEDULES and SEED extend and repeat the test.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import {
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
  type ConsoleServer,
} from "../../helpers/console.js";
import { createFileHooks, fetchJson } from "../../helpers/console-runs.js";
import { callStep, type FakeStep } from "../../helpers/fake-model-server.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { makeTempDir } from "../../helpers/temp-dir.js";
import { waitFor } from "../../helpers/wait.js";

const SCHEDULE_COUNT = Number(process.env["SCHEDULES"] ?? 12);
const STEP_COUNT = 12;
const MAX_PAUSE_MS = 250;
const MAX_ANSWER_MS = 600;
/** The page reports each request that a killed server does not answer, and each late instruction. */
const EXPECTED_FAULTS = /Failed to load resource|ERR_/;

const hooks = createFileHooks(after);
const browser = shareBrowser(hooks);

describe("sentences typed in random schedules", { skip: NO_BROWSER }, () => {
  let consoleServer: ConsoleServer;
  let server: GantryServer;
  let random = createRandom(readSeed());
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
  const createAnswer = (): FakeStep =>
    random() < 0.3
      ? callStep("glob", { pattern: "*.none" })
      : { say: [{ text: "Begun. " }, { wait: Math.round(random() * MAX_ANSWER_MS) }, { text: "Ended." }] };

  before(async () => {
    const home = await makeTempDir();
    hooks.after(() => home.remove());
    consoleServer = await startConsole(hooks, { home: home.path, models: { fallback: createAnswer } });
    ({ server } = consoleServer);
  });

  /** Kills the server, and starts it again on the same port after `whileDown`. */
  async function restartServer(whileDown: () => Promise<void>): Promise<void> {
    const { home, projectDir } = server;
    const { port } = new URL(consoleServer.url);
    await server.stop("SIGKILL");
    await whileDown();
    server = await startServer(hooks, { home, projectDir, args: ["serve", "--port", port] });
  }

  for (let schedule = 0; schedule < SCHEDULE_COUNT; schedule++) {
    it(`schedule ${readSeed() + schedule} loses no sentence`, async (t) => {
      random = createRandom(readSeed() + schedule);
      const { page } = await openWindow(t, await browser(), consoleServer.url, { expectedFaults: EXPECTED_FAULTS });
      const sentences: string[] = [];
      const log: string[] = [];
      const type = async () => {
        const sentence = `Sentence ${schedule}-${sentences.length} of the schedule.`;
        // In one task of the page, so that no new field replaces this one before the text is in it.
        await page.locator("#prompt").waitFor();
        await page.evaluate(`(() => {
          const field = document.getElementById("prompt");
          field.focus();
          field.setSelectionRange(field.value.length, field.value.length);
          document.execCommand("insertText", false, ${JSON.stringify(` ${sentence}`)});
        })()`);
        sentences.push(sentence);
      };
      const send = async () => {
        await type();
        const delivery = page.getByRole("combobox", { name: "During the run" });
        if (random() < 0.5 && (await delivery.isVisible()))
          await delivery.selectOption("queue", { timeout: 1_000 }).catch(() => undefined);
        await page.keyboard.press("Enter");
      };
      const click = async (name: string) => {
        const button = page.getByRole("button", { name, exact: true }).first();
        // The button may disappear at any time.
        if (await button.isVisible()) await button.click({ timeout: 1_000 }).catch(() => undefined);
      };
      const steps: Readonly<Record<string, () => Promise<unknown>>> = {
        send,
        type,
        stop: () => click("Stop"),
        edit: () => click("Edit"),
        sendQueue: () => click("Send the queue"),
        reload: () => page.reload(),
        otherSession: () => page.evaluate(`location.hash = "#/"`),
        back: () => page.evaluate(`document.querySelector(".side-session a")?.click()`),
        kill: () => restartServer(async () => (random() < 0.5 ? send() : undefined)),
      };
      const names = ["send", "send", "send", "send", "send", "type", "stop", "stop", "reload", "reload"];
      const otherNames = ["edit", "sendQueue", "otherSession", "back", "kill"];
      for (let step = 0; step < STEP_COUNT; step++) {
        const name = step === 0 ? "send" : pick(random() < 0.75 ? names : otherNames);
        log.push(name);
        await page.locator("#prompt").waitFor();
        await steps[name]!();
        // Time: a pause of a person, so that the next step meets each state of a run.
        await page.waitForTimeout(random() * MAX_PAUSE_MS);
      }
      const texts = await collectTexts(page);
      const lostSentences = sentences.filter((sentence) => !texts.some((text) => text.includes(sentence)));
      assert.deepEqual(lostSentences, [], `lost in the schedule ${log.join(", ")}`);
      assert.ok(sentences.length > 0);
    });
  }

  /** The texts of all messages, prompt fields and lists of unsent texts, when no run is active. */
  async function collectTexts(page: Page): Promise<string[]> {
    const texts: string[] = [];
    await waitUntilSettled(page, "");
    const sessionIds = (await fetchJson<{ sessions: { id: string }[] }>(server, "/api/sessions?size=100")).sessions.map(
      ({ id }) => id,
    );
    for (const id of sessionIds.slice(0, STEP_COUNT)) {
      await page.goto(sessionUrl(consoleServer, id));
      await page.locator("#prompt").waitFor();
      // The page settles the texts of a session while it shows the session.
      await waitUntilSettled(page, id);
      const { messages } = await fetchJson<{ messages: { role: string; content: unknown }[] }>(
        server,
        `/api/sessions/${id}/messages`,
      );
      texts.push(...messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content)));
      texts.push(await readUnsentTexts(page));
    }
    await page.goto(`${consoleServer.url}#/`);
    await page.getByRole("heading", { name: "New session" }).waitFor();
    return [...texts, await readUnsentTexts(page)];
  }

  /** Waits until the session has no active run, and until its sent texts are in messages or offered to the user. */
  async function waitUntilSettled(page: Page, sessionId: string): Promise<void> {
    let unsettled: object[] = [];
    const settle = async () => {
      const path = `/api/runs?size=20&session_id=${sessionId}`;
      const { runs } = sessionId === "" ? { runs: [] } : await fetchJson<{ runs: { state: string }[] }>(server, path);
      const entriesJson = await page.evaluate<string>(`localStorage.getItem("gantry.outbox") ?? "[]"`);
      const entries = JSON.parse(entriesJson) as { sessionId: string; isHeld?: boolean }[];
      unsettled = [
        ...runs.filter(({ state }) => /^(queued|running|waiting)$/.test(state)),
        ...entries.filter((entry) => entry.sessionId === sessionId && !entry.isHeld),
      ];
      return unsettled.length === 0 || undefined;
    };
    await waitFor("settled texts", settle, () => JSON.stringify(unsettled, undefined, 1), 50);
  }
});

function readUnsentTexts(page: Page): Promise<string> {
  return page.evaluate<string>(
    `[document.getElementById("prompt").value, ...[...document.querySelectorAll(".composer-pending li")].map(({ textContent }) => textContent)].join("\\n")`,
  );
}
