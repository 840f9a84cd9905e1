import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import type { ApiMessage, ApiRun, ApiSession } from "gantry/client";
import type { FakeModelServer } from "../../helpers/fake-model-server.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { createServerConfig, startModelServer } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { NO_TMUX, openPane, type Pane } from "../../helpers/terminal-pane.js";
import { waitFor } from "../../helpers/wait.js";

/** Number of schedules. `GANTRY_SCHEDULES=200` searches for rare failures. */
const SCHEDULES = Number(process.env["GANTRY_SCHEDULES"] ?? 10);
const STEPS = 10;
const PROMPT_READY = /❯/;
const SESSION_SHOWN = / · lab\/m1/;
const ACTIVE_STATES: readonly string[] = ["queued", "running", "waiting"];

/** A terminal at a server. Both are killed and started again. */
class Schedule {
  readonly sentences: string[] = [];
  readonly log: string[] = [];
  readonly #t: TestContext;
  readonly #modelServer: FakeModelServer;
  #server: GantryServer;
  #pane: Pane | undefined;
  #openedGates = 0;

  constructor(t: TestContext, modelServer: FakeModelServer, server: GantryServer) {
    this.#t = t;
    this.#modelServer = modelServer;
    this.#server = server;
  }

  async openTerminal(): Promise<Pane> {
    const { home, url } = this.#server;
    const sessionArguments = (await this.#listSessions()).length > 0 ? ["--continue"] : [];
    this.#pane = await openPane(this.#t, {
      args: ["chat", "--url", url, ...sessionArguments],
      home,
      shell: `sh -c 'echo $$ > "$GANTRY_HOME/pid"; exec "$@"' gantry "$@"`,
    });
    // Texts are stored once the terminal has opened its files, which happens before it shows the session.
    await this.#pane.waitForScreen(sessionArguments.length > 0 ? SESSION_SHOWN : PROMPT_READY);
    await waitFor("the folder of the terminal", () => existsSync(`${home}/terminal`) || undefined);
    return this.#pane;
  }

  /** Sends the first sentence. Resolves when the server has its session. */
  async createSession(): Promise<void> {
    await this.type();
    await this.send();
    await waitFor("the first session", async () => (await this.#listSessions()).length > 0 || undefined);
  }

  /** Types a new sentence and waits until the screen shows it. */
  async type(): Promise<void> {
    const sentence = `sentence-${this.sentences.length}-end`;
    this.sentences.push(sentence);
    const pane = await this.#getPane();
    await pane.type(`${sentence} `);
    await pane.waitForScreen((screen) => screen.includes(sentence));
  }

  async send(): Promise<void> {
    await (await this.#getPane()).sendKeys("Enter");
  }

  /** Stops the run if there is one. If the run ends before the key, Ctrl+C clears the prompt, and Up recalls its text. */
  async stop(): Promise<void> {
    const pane = await this.#getPane();
    const screen = await pane.readScreen();
    if (!/working, Ctrl\+C stops/.test(screen)) return;
    await pane.sendKeys("C-c");
    await pane.waitForScreen(/Ctrl\+C again quits/);
    // Another key keeps a later Ctrl+C from leaving the terminal.
    await pane.sendKeys("C-e");
    const clearedScreen = await pane.waitForScreen((text) => !/Ctrl\+C again quits/.test(text));
    const sentences = this.sentences.filter((sentence) => readInput(screen).includes(sentence));
    if (!sentences.every((sentence) => readInput(clearedScreen).includes(sentence))) await pane.sendKeys("Up");
  }

  /** Lets the next answer of the model end. */
  finishAnswer(): void {
    this.#modelServer.openGate(`answer ${this.#openedGates}`);
    this.#openedGates += 1;
  }

  async restartServer(): Promise<void> {
    const { home, projectDir, url } = this.#server;
    await this.#server.stop("SIGKILL");
    this.#server = await startServer(this.#t, { home, projectDir, args: ["serve", "--port", new URL(url).port] });
  }

  /** Kills the terminal as soon as it has stored the prompt on the screen, which takes milliseconds. */
  async killTerminal(): Promise<void> {
    const pane = await this.#getPane();
    const input = readInput(await pane.readScreen());
    const sentences = this.sentences.filter((sentence) => input.includes(sentence));
    // Texts that were sent meanwhile are messages.
    await waitFor("the stored prompt", async () => {
      const texts = `${await this.#readStoredTexts()}\n${await this.#readMessages()}`;
      return sentences.every((sentence) => texts.includes(sentence)) || undefined;
    });
    process.kill(Number(await readFile(`${this.#server.home}/pid`, "utf8")), "SIGKILL");
    await pane.waitForExit();
    this.#pane = undefined;
  }

  /** Ends all runs, and waits until each sentence is in a message or in the prompt. */
  async waitForSentences(): Promise<void> {
    const pane = await this.#getPane();
    let state = "";
    await waitFor(
      "a message or a prompt with each sentence",
      async () => {
        // A run that starts late needs another gate.
        for (let i = 0; i < this.sentences.length; i += 1) this.finishAnswer();
        const { runs } = (await (await this.#server.fetch("/api/runs")).json()) as { runs: ApiRun[] };
        const screen = await pane.readScreen();
        const texts = [await this.#readMessages(), readInput(screen)];
        const lost = this.sentences.filter((sentence) => !texts.some((text) => text.includes(sentence)));
        state = `${this.log.join(" ")}\nlost: ${lost.join(" ")}\n${screen}`;
        const isActive = runs.some((run) => ACTIVE_STATES.includes(run.state));
        return !isActive && lost.length === 0 ? true : undefined;
      },
      () => state,
      100,
    );
  }

  async #getPane(): Promise<Pane> {
    return this.#pane ?? (await this.openTerminal());
  }

  /** Reads the files with the unsent texts of all terminals. */
  async #readStoredTexts(): Promise<string> {
    const folder = `${this.#server.home}/terminal`;
    const names = await readdir(folder, { recursive: true });
    const files = names.filter((name) => name.endsWith(".json"));
    // Files are replaced and removed meanwhile.
    return (await Promise.all(files.map((name) => readFile(`${folder}/${name}`, "utf8").catch(() => "")))).join("\n");
  }

  async #listSessions(): Promise<ApiSession[]> {
    return ((await (await this.#server.fetch("/api/sessions")).json()) as { sessions: ApiSession[] }).sessions;
  }

  async #readMessages(): Promise<string> {
    const parts = [];
    for (const { id } of await this.#listSessions()) {
      const response = await this.#server.fetch(`/api/sessions/${id}/messages`);
      const { messages } = (await response.json()) as { messages: ApiMessage[] };
      parts.push(...messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content)));
    }
    return parts.join("\n");
  }
}

/**
 * Returns the rows of the prompt, without sent texts that no model has read, and without the status row, which can show
 * the title of the session.
 */
function readInput(screen: string): string {
  const rows = screen.slice(screen.lastIndexOf("───")).split("\n");
  return rows.filter((row) => !/ · lab\/m1|^ {2}↳ /.test(row)).join("\n");
}

describe("a sentence that was typed in a terminal", { skip: NO_TMUX }, () => {
  for (let number = 0; number < SCHEDULES; number += 1) {
    const seed = readSeed() * 1_000 + number;
    it(`is in a message or in the prompt after prompts, stops and kills (SEED ${seed})`, async (t) => {
      const random = createRandom(seed);
      const modelServer = await startModelServer(t);
      let answers = 0;
      modelServer.fallback = () => ({
        say: [{ text: "Working. " }, { gate: `answer ${answers++}` }, { text: "Done." }],
      });
      const server = await startServer(t, { config: createServerConfig(modelServer) });
      const schedule = new Schedule(t, modelServer, server);
      const steps: Readonly<Record<string, () => Promise<void> | void>> = {
        type: () => schedule.type(),
        send: () => schedule.type().then(() => schedule.send()),
        sendAgain: () => schedule.type().then(() => schedule.send()),
        stop: () => schedule.stop(),
        finish: () => schedule.finishAnswer(),
        restart: () => schedule.restartServer(),
        kill: () => schedule.killTerminal(),
      };
      const names = Object.keys(steps);
      await schedule.openTerminal();
      // A terminal that finds no server with its first request ends.
      await schedule.createSession();
      for (let step = 0; step < STEPS; step += 1) {
        const name = names[Math.floor(random() * names.length)] ?? "";
        schedule.log.push(name);
        await steps[name]?.();
      }
      await schedule.waitForSentences();
      assert.ok(schedule.log.length === STEPS);
    });
  }
});
