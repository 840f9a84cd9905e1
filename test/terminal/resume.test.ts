import assert from "node:assert/strict";
import { createServer, request, type Server } from "node:http";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";
import { startServer } from "../helpers/server.js";
import type { Hooks } from "../helpers/temp-dir.js";
import { TERMINAL_PAYLOADS } from "../helpers/terminal-payloads.js";
import { waitFor } from "../helpers/wait.js";

/** Starts a proxy that records requested paths and drops a response if `isResponseLost` returns true for its path. */
async function startRecordingProxy(
  hooks: Hooks,
  url: string,
  isResponseLost?: (path: string) => boolean | Promise<boolean>,
) {
  const requestedPaths: string[] = [];
  const server: Server = createServer((incoming, response) => {
    requestedPaths.push(incoming.url ?? "");
    const { method, headers } = incoming;
    const forwardedRequest = request(
      new URL(incoming.url ?? "", url),
      { method: method ?? "GET", headers: { ...headers, host: new URL(url).host } },
      (serverResponse) =>
        void Promise.resolve(isResponseLost?.(incoming.url ?? "")).then((isLost) => {
          if (isLost) return response.destroy();
          response.writeHead(serverResponse.statusCode ?? 502, serverResponse.headers);
          return serverResponse.pipe(response);
        }),
    );
    forwardedRequest.on("error", () => response.destroy());
    response.on("close", () => forwardedRequest.destroy());
    incoming.pipe(forwardedRequest);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  hooks.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requestedPaths };
}

describe("the session of a terminal", { skip: NO_TMUX }, () => {
  it("loads the last 50 messages, and up to 50 earlier messages at each scroll to the start", async (t) => {
    const modelServer = await startModelServer(t);
    modelServer.fallback = ({ body }) =>
      textStep(`Answer to ${/.*(prompt \d+)/s.exec(JSON.stringify(body))?.[1] ?? "?"}.`);
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    let sessionId = "";
    for (let i = 1; i <= 60; i += 1) {
      const runResult = await runPrompt(server, {
        message: `prompt ${i}`,
        ...(sessionId !== "" && { session_id: sessionId }),
      });
      assert.equal(runResult.status, 200);
      ({ sessionId } = runResult);
    }
    const { url, requestedPaths } = await startRecordingProxy(t, server.url);
    const pane = await openPane(t, { args: ["chat", "--url", url, "--session", sessionId], rows: 24 });
    const findPageRequests = () =>
      requestedPaths
        .filter((path) => path.includes("/messages"))
        .map((path) => new URLSearchParams(path.split("?")[1]));
    await pane.waitForScreen(/Answer to prompt 60\./);
    assert.deepEqual(
      findPageRequests().map((page) => page.get("limit")),
      ["50"],
    );
    // The stream starts after these messages, so it sends no older message.
    const streamPath = await waitFor("the request of the event stream", () =>
      requestedPaths.find((path) => path.includes("/events")),
    );
    assert.match(streamPath, /[?&]after_seq=119(&|$)/);
    await pane.sendKeys("PPage");
    await pane.waitForScreen((screen) => !screen.includes("prompt 60"));
    assert.equal(findPageRequests().length, 1);
    // Messages 71 to 120 of 120 are loaded, then 21 to 70, then 1 to 20. The visible rows stay in place.
    const findOlderPageRequests = () =>
      findPageRequests()
        .slice(1)
        .map((page) => [page.get("before"), page.get("limit")]);
    await pane.sendKeys("C-Home");
    // The page is loaded when the row above the visible messages no longer mentions older messages.
    const isPageLoaded = (screen: string) => !/older messages: scroll up|loading \.\.\./.test(screen);
    await pane.waitForScreen(
      (screen) => findOlderPageRequests().length === 1 && /❯ prompt 36$/m.test(screen) && isPageLoaded(screen),
    );
    await pane.sendKeys("PPage");
    await pane.waitForScreen(/❯ prompt 34$/m);
    await pane.sendKeys("C-Home");
    await pane.waitForScreen(
      (screen) => findOlderPageRequests().length === 2 && /❯ prompt 11$/m.test(screen) && isPageLoaded(screen),
    );
    await pane.sendKeys("C-Home");
    await pane.waitForScreen(/❯ prompt 1$/m);
    assert.deepEqual(findOlderPageRequests(), [
      ["71", "50"],
      ["21", "50"],
    ]);
    // New messages do not move the view; one key returns to the end.
    await runPrompt(server, { message: "prompt 61", session_id: sessionId });
    await pane.waitForScreen(/❯ prompt 1$/m);
    await pane.sendKeys("C-End");
    await pane.waitForScreen(/Answer to prompt 61\./);
  });

  it("runs a prompt once if its response was lost and the user sends it again", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Done once.") });
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    let runRequestCount = 0;
    const { url } = await startRecordingProxy(
      t,
      server.url,
      (path) => path === "/api/run" && (runRequestCount += 1) === 1,
    );
    const pane = await openPane(t, { args: ["chat", "--url", url] });
    await pane.waitForScreen(/Type a prompt/);
    await pane.type("Only once");
    await pane.sendKeys("Enter");
    // The prompt is in the input field again.
    await pane.waitForScreen((screen) => runRequestCount === 1 && /───\n❯ Only once/.test(screen));
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Done once\./);
    assert.equal(runRequestCount, 2);
    const { sessions } = (await (await server.fetch("/api/sessions")).json()) as { sessions: { id: string }[] };
    assert.equal(sessions.length, 1);
    assert.equal(modelServer.requests.filter(({ tools }) => tools.length > 0).length, 1);
  });

  it("stops the run on a Ctrl+C that arrives before the id of the run is known", async (t) => {
    const modelServer = await startModelServer(t, { fallback: { say: [{ text: "I begin" }, { stall: true }] } });
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    let releaseResponse: () => void = () => undefined;
    const responseGate = new Promise<void>((resolve) => (releaseResponse = resolve));
    const { url } = await startRecordingProxy(t, server.url, async (path) => {
      if (path === "/api/run") await responseGate;
      return false;
    });
    const pane = await openPane(t, { args: ["chat", "--url", url] });
    await pane.waitForScreen(/Type a prompt/);
    await pane.type("Too early");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Ctrl\+C stops/);
    await pane.sendKeys("C-c");
    await pane.waitForScreen(/stopping/);
    releaseResponse();
    await pane.waitForScreen(/Stopped\./);
  });

  it("writes no control or direction characters of models, tools, files and titles to the terminal", async (t) => {
    const modelServer = await startModelServer(t, { toolFreeAnswer: textStep(TERMINAL_PAYLOADS[20] ?? "") });
    const text = TERMINAL_PAYLOADS.join("\n");
    const pane = await openPane(t, {
      config: createServerConfig(modelServer),
      files: { "payload.txt": text, "\u001b]0;pwned\u0007.txt": "a name" },
      // Starts only after the recording, so that the first byte is recorded.
      shell: 'until [ -e "$GANTRY_HOME/raw" ]; do sleep 0.02; done; "$@"',
    });
    await pane.record(`${pane.home}/raw`);
    modelServer.enqueue(
      {
        say: [
          { reasoning: text },
          { text: `${text}\n\`\`\`\n${text}\n\`\`\`` },
          { call: { name: "bash", arguments: { command: `cat payload.txt; echo '${TERMINAL_PAYLOADS[20]}'` } } },
        ],
      },
      callStep("write", { filePath: "made.txt", content: text }),
      callStep("read", { filePath: text }),
      textStep(`${text}\n\nEnded.`),
      textStep("Last words."),
    );
    await pane.waitForScreen(/Type a prompt/);
    await pane.type("Go");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Ended\./);
    await pane.sendKeys("C-o", "C-Home");
    await pane.type("/title \u202egnp.exe");
    await pane.sendKeys("Enter");
    await pane.type("@");
    await pane.waitForScreen(/payload\.txt/);
    await pane.sendKeys("C-u");
    await pane.type("More");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Last words\./);
    assert.equal(await pane.readFormat("#{alternate_on}"), "1");
    assert.doesNotMatch(await pane.readFormat("#{pane_title}"), /pwned/);
    await pane.sendKeys("C-d");
    await pane.waitForExit();
    const recordedOutput = await readFile(`${pane.home}/raw`, "utf8");
    // The terminal's own output has only these forms.
    // eslint-disable-next-line no-control-regex
    const ownSequences = /\u001b\[(\d+;1H|\d+;\d+H|[02]?[JK]|H|[\d;]*m|\?(7|25|1000|1002|1006|1049|2004|2026)[hl])/g;
    const remainingOutput = recordedOutput.replace(ownSequences, "").replace(/[\r\n]/g, "");
    // eslint-disable-next-line no-control-regex -- as above
    assert.deepEqual(remainingOutput.match(/.{0,20}[\u0000-\u001f\u007f-\u009f\u202e\u2066].{0,20}/u), null);
    assert.doesNotMatch(recordedOutput, /\u202e|\u2066|\u200b/u);
  });
});
