import assert from "node:assert/strict";
import { createServer, request, type Server } from "node:http";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { call, say } from "../helpers/fake-model-server.js";
import { ask, lab, labConfig } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";
import { startServer } from "../helpers/server.js";
import type { Hooks } from "../helpers/temp.js";
import { PAYLOADS } from "../helpers/terminal-payloads.js";

/** A proxy that records the requested paths. It drops the responses of paths for which `lost` returns true. */
async function recordingProxy(hooks: Hooks, url: string, lost?: (path: string) => boolean | Promise<boolean>) {
  const requestedPaths: string[] = [];
  const server: Server = createServer((incoming, answer) => {
    requestedPaths.push(incoming.url ?? "");
    const { method, headers } = incoming;
    const forwarded = request(
      new URL(incoming.url ?? "", url),
      { method: method ?? "GET", headers: { ...headers, host: new URL(url).host } },
      (from) =>
        void Promise.resolve(lost?.(incoming.url ?? "")).then((isLost) => {
          if (isLost) return answer.destroy();
          answer.writeHead(from.statusCode ?? 502, from.headers);
          return from.pipe(answer);
        }),
    );
    forwarded.on("error", () => answer.destroy());
    answer.on("close", () => forwarded.destroy());
    incoming.pipe(forwarded);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  hooks.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requestedPaths };
}

describe("the session of a terminal", { skip: NO_TMUX }, () => {
  it("loads its last 50 messages, and up to 50 more at each scroll to its start", async (t) => {
    const models = await lab(t);
    models.fallback = ({ body }) => say(`Answer to ${/.*(prompt \d+)/s.exec(JSON.stringify(body))?.[1] ?? "?"}.`);
    const server = await startServer(t, { config: labConfig(models) });
    let sessionId = "";
    for (let i = 1; i <= 60; i += 1) {
      const answer = await ask(server, {
        message: `prompt ${i}`,
        ...(sessionId !== "" && { session_id: sessionId }),
      });
      assert.equal(answer.status, 200);
      ({ sessionId } = answer);
    }
    const { url, requestedPaths } = await recordingProxy(t, server.url);
    const pane = await openPane(t, { args: ["chat", "--url", url, "--session", sessionId], rows: 24 });
    const pages = () =>
      requestedPaths
        .filter((path) => path.includes("/messages"))
        .map((path) => new URLSearchParams(path.split("?")[1]));
    await pane.until(/Answer to prompt 60\./);
    assert.deepEqual(
      pages().map((page) => page.get("limit")),
      ["50"],
    );
    // The stream starts after these messages: no older ones were sent.
    assert.match(requestedPaths.find((path) => path.includes("/events")) ?? "", /[?&]after_seq=119(&|$)/);
    await pane.keys("PPage");
    await pane.until((screen) => !screen.includes("prompt 60"));
    assert.equal(pages().length, 1);
    // Messages 71 to 120 of 120 are loaded, then 21 to 70, then the 20 before. The visible rows stay in place.
    const olderPages = () =>
      pages()
        .slice(1)
        .map((page) => [page.get("before"), page.get("limit")]);
    await pane.keys("C-Home");
    // The page is loaded when the row above the visible ones no longer mentions older messages.
    const isPageLoaded = (screen: string) => !/older messages: scroll up|loading \.\.\./.test(screen);
    await pane.until((screen) => olderPages().length === 1 && /❯ prompt 36$/m.test(screen) && isPageLoaded(screen));
    await pane.keys("PPage");
    await pane.until(/❯ prompt 34$/m);
    await pane.keys("C-Home");
    await pane.until((screen) => olderPages().length === 2 && /❯ prompt 11$/m.test(screen) && isPageLoaded(screen));
    await pane.keys("C-Home");
    await pane.until(/❯ prompt 1$/m);
    assert.deepEqual(olderPages(), [
      ["71", "50"],
      ["21", "50"],
    ]);
    // New messages do not move the view; one key returns to the end.
    await ask(server, { message: "prompt 61", session_id: sessionId });
    assert.match(await pane.screen(), /❯ prompt 1$/m);
    await pane.keys("C-End");
    await pane.until(/Answer to prompt 61\./);
  });

  it("runs a prompt once if its response was lost and the user sends it again", async (t) => {
    const models = await lab(t, { fallback: say("Done once.") });
    const server = await startServer(t, { config: labConfig(models) });
    let runs = 0;
    const { url } = await recordingProxy(t, server.url, (path) => path === "/api/run" && (runs += 1) === 1);
    const pane = await openPane(t, { args: ["chat", "--url", url] });
    await pane.until(/Type a prompt/);
    await pane.type("Only once");
    await pane.keys("Enter");
    // The prompt is in the field again.
    await pane.until((screen) => runs === 1 && /───\n❯ Only once/.test(screen));
    await pane.keys("Enter");
    await pane.until(/Done once\./);
    assert.equal(runs, 2);
    const { sessions } = (await (await server.fetch("/api/sessions")).json()) as { sessions: { id: string }[] };
    assert.equal(sessions.length, 1);
    assert.equal(models.requests.filter(({ tools }) => tools.length > 0).length, 1);
  });

  it("stops its run on a Ctrl+C that arrives before its id is known", async (t) => {
    const models = await lab(t, { fallback: { say: [{ text: "I begin" }, { stall: true }] } });
    const server = await startServer(t, { config: labConfig(models) });
    let go: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    const { url } = await recordingProxy(t, server.url, async (path) => {
      if (path === "/api/run") await gate;
      return false;
    });
    const pane = await openPane(t, { args: ["chat", "--url", url] });
    await pane.until(/Type a prompt/);
    await pane.type("Too early");
    await pane.keys("Enter");
    await pane.until(/Ctrl\+C stops/);
    await pane.keys("C-c");
    await pane.until(/stopping/);
    go();
    await pane.until(/Stopped\./);
  });

  it("writes no control or direction characters of models, tools, files and titles to the terminal", async (t) => {
    const models = await lab(t, { aside: say(PAYLOADS[20] ?? "") });
    const text = PAYLOADS.join("\n");
    const pane = await openPane(t, {
      config: labConfig(models),
      files: { "payload.txt": text, "\u001b]0;pwned\u0007.txt": "a name" },
      // Starts only after the recording, so that the first byte is recorded.
      shell: 'until [ -e "$GANTRY_HOME/raw" ]; do sleep 0.02; done; "$@"',
    });
    await pane.record(`${pane.home}/raw`);
    models.enqueue(
      {
        say: [
          { reasoning: text },
          { text: `${text}\n\`\`\`\n${text}\n\`\`\`` },
          { call: { name: "bash", arguments: { command: `cat payload.txt; echo '${PAYLOADS[20]}'` } } },
        ],
      },
      call("write", { filePath: "made.txt", content: text }),
      call("read", { filePath: text }),
      say(`${text}\n\nEnded.`),
      say("Last words."),
    );
    await pane.until(/Type a prompt/);
    await pane.type("Go");
    await pane.keys("Enter");
    await pane.until(/Ended\./);
    await pane.keys("C-o", "C-Home");
    await pane.type("/title \u202egnp.exe");
    await pane.keys("Enter");
    await pane.type("@");
    await pane.until(/payload\.txt/);
    await pane.keys("C-u");
    await pane.type("More");
    await pane.keys("Enter");
    await pane.until(/Last words\./);
    assert.equal(await pane.format("#{alternate_on}"), "1");
    assert.doesNotMatch(await pane.format("#{pane_title}"), /pwned/);
    await pane.keys("C-d");
    await pane.ended();
    const raw = await readFile(`${pane.home}/raw`, "utf8");
    // The terminal's own output has only these forms.
    // eslint-disable-next-line no-control-regex
    const ownSequences = /\u001b\[(\d+;1H|\d+;\d+H|[02]?[JK]|H|[\d;]*m|\?(7|25|1000|1002|1006|1049|2004|2026)[hl])/g;
    const remainingOutput = raw.replace(ownSequences, "").replace(/[\r\n]/g, "");
    // eslint-disable-next-line no-control-regex -- as above
    assert.deepEqual(remainingOutput.match(/.{0,20}[\u0000-\u001f\u007f-\u009f\u202e\u2066].{0,20}/u), null);
    assert.doesNotMatch(raw, /\u202e|\u2066|\u200b/u);
  });
});
