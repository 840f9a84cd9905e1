// The files of dist/chunks that a start or a first run loads, and the modules in each. CONTRIBUTING.md ("The build")
// explains the functions; pack.mjs reads them. A module in no list goes to the file that imports it.

/** Each string of `lines` is a folder followed by modules in it. A semicolon starts the next folder. */
function chunk(name, needs, lines, fields) {
  const modules = lines
    .flatMap((line) => line.split("; "))
    .flatMap((line) => {
      const [folder, ...files] = line.split(" ");
      return files.map((file) => `${folder}/${file.endsWith(".js") ? file : `${file}.ts`}`);
    });
  return { name, needs: needs.split(" "), modules, ...fields };
}
const deferredChunk = (name, needs, lines) => chunk(name, needs, lines, { isDeferred: true });
const separateChunk = (name, lines) => chunk(name, "", lines, { isSeparate: true });

/** The order is the loading order: a chunk takes shared modules from earlier chunks. */
export const CHUNKS = [
  // Programs that import `gantry` do not need the command line. These chunks therefore share nothing with the others.
  separateChunk("main", ["src/cli dispatch"]),
  separateChunk("choose", ["src/cli command-choice"]),
  // The first frame of a terminal, which must not wait for the chunks below.
  separateChunk("chat", ["src/cli chat", "adapters/terminal index"]),
  chunk("serve", "", [
    "src/cli serve; adapters/sqlite-driver index; adapters/language-models index presets",
    "node_modules/better-sqlite3/lib index.js",
    // Small modules that several chunks below share.
    "src/models estimate usage; src/plugin listening-base; src/base linux-processes",
  ]),
  deferredChunk("refusals", "serve", ["src/base refusal-log"]),
  chunk("http", "serve", ["src/http http-host", "adapters/koa-http-api index", "adapters/web-console index"]),
  deferredChunk("clients", "serve http", ["src/http client-lookup event-loop-load socket-table"]),
  deferredChunk("http-refusals", "serve http refusals", ["src/http refusals"]),
  chunk("stdio", "serve", ["adapters/acp-stdio index"]),
  deferredChunk("acp-failures", "serve refusals stdio", ["adapters/acp-shared failures"]),
  deferredChunk("prompt", "serve stdio", [
    "adapters/acp-shared permission plan prompt prompt-input reported-calls run-usage session-watch tool-output-stream updates",
  ]),
  // Methods and features of ACP that a first turn does not need.
  deferredChunk("acp-features", "serve stdio prompt", [
    "adapters/acp-shared authentication elicitation session-changes session-list system-prompt terminals",
  ]),
  // The first run. Modules of adapters/language-models that the `serve` chunk contains are not listed again.
  deferredChunk("run", "serve", [
    "src/run local-runs; src/run/calls call-dialects; src/run/input server-check; src/conversation conversation messages",
    "src/project git-head instructions skills tree; src/files handle-opener name-opener names opened-folder path-guard resolve-path; src/processes output-folder",
    "src/watch live-sessions session-tail watch; src/sessions holder lease; src/tools builtin-tools; adapters/language-models answer catalogue-entry efforts files limits model-list local-catalogue reasoning-echo bodies json messages open-wire price-updates prices request-capture response-bytes stream usage; adapters/language-models/reading answer-body event-lines",
    // Most servers use this protocol. A separate chunk would slow down most first runs.
    "adapters/language-models/wires openai",
  ]),
  chunk("google", "serve run", ["adapters/language-models/wires google"]),
  chunk("anthropic", "serve run", ["adapters/language-models/wires anthropic"]),
  chunk("openai-responses", "serve run", ["adapters/language-models/wires openai-responses"]),
  chunk("offline", "serve", ["adapters/offline-provider index"]),
  // Loaded after the start, to report whether commands run in a sandbox.
  deferredChunk("sandbox", "serve run", [
    "src/cli start-lines; src/tools/shell/sandbox sandbox; src/processes child end-group process-group",
  ]),
  // Modules for the first tool call.
  deferredChunk("tools", "serve run", [
    "src/run/calls execute prepare; src/run/prompt nested-instructions; src/run/permissions rule-schema rules; src/tools/files delete-path edit-file files grep-search matched-lines patch-files patch-plan patch-text read-file",
    "src/tools/files record-file replace-file search-folder search-results write-file; src/tools/shell shell-output; src/tools/web web-page; src/files attachments walk; src/untrusted workers; src/base cut-text; src/processes clean-stream file-list output-file ripgrep search-scope",
  ]),
  // Runs with watching clients, questions, subagents or budgets.
  deferredChunk("live", "serve run", [
    "src/run/budget run-budget; src/run/calls spawn; src/run/context structured-output; src/run/input budget-check",
    "src/run/permissions asks request-answer; src/run/queue queue runs; adapters/sqlite-driver asks",
  ]),
  // Modules that only few processes need.
  deferredChunk("rare-features", "serve run", [
    "src/compaction compact-view fit follow-up prompt-prefix sliding-window; src/run/calls session-work; src/sessions fork revert subagents undo; src/history plan restore",
    "adapters/language-models errors from-ai-sdk module provider-fault; src/serve mcp-servers third-party",
    "adapters/sqlite-driver dump; src/tools/shell bash-jobs; src/processes detached-job job supervisor",
  ]),
  chunk("api", "serve http", ["adapters/koa-http-api app"]),
  // This chunk needs much more of the schema package than the others. It therefore shares nothing with them.
  separateChunk("openapi", ["adapters/koa-http-api openapi"]),
  chunk("console", "serve http", ["adapters/web-console pages"]),
  chunk("login", "serve http api console", ["adapters/web-console one-time-links"]),
];
