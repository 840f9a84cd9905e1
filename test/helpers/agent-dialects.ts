/** Result of a call in another agent's dialect: the call that runs instead, or the message for the model. */
export type DialectOutcome =
  | { readonly tool: string; readonly input: Readonly<Record<string, unknown>>; readonly result?: RegExp }
  | { readonly reported: RegExp };

/** A tool of another agent: argument names, required ones with `!`, and calls as its model writes them. */
export interface DialectTool {
  readonly properties: string;
  readonly calls: readonly (readonly [args: Readonly<Record<string, unknown>>, outcome: DialectOutcome])[];
}

export interface AgentDialect {
  readonly agent: string;
  /** Product and version, with the file that contains the schemas. Names the schemas that were not compared with it. */
  readonly source: string;
  /** Model of the agent. GPT gets `apply_patch` instead of `edit`. */
  readonly model: string;
  readonly tools: Readonly<Record<string, DialectTool>>;
}

/** `$URL`: a page of the test. `$JOB`: the id of a command in the background. */
const URL_PLACEHOLDER = "$URL/page";
const JOB = "$JOB";

const runs = (tool: string, input: Readonly<Record<string, unknown>>, result?: RegExp): DialectOutcome => ({
  tool,
  input,
  ...(result && { result }),
});
const reported = (message: RegExp): DialectOutcome => ({ reported: message });
const refusal = (names: string) => reported(new RegExp(`unknown argument ${names}\\. The call did not run`));
const note = (names: string) => reported(new RegExp(`unknown argument ${names} was ignored`));
const missing = reported(/does not exist\. Use one of/);

const TODOS = [
  { content: "one", status: "completed" },
  { content: "two", status: "in_progress" },
];
const QUESTION = { question: "Which?", header: "H" };
const OPTIONS = [
  { label: "red", description: "warm" },
  { label: "blue", description: "cold" },
];
const ASKED = runs("ask_user", { question: "Which?", choices: ["red", "blue"], free_text: true }, /red/);
const PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n*** End Patch";
const PATCHED = runs("apply_patch", { input: PATCH }, /M a\.txt/);
const EDIT = { path: "a.txt", old_string: "two", new_string: "2" };
const ALL_FILES = runs("list", { path: ".", all: true });

const CLAUDE: AgentDialect = {
  agent: "Claude Code",
  source: "@anthropic-ai/claude-code 2.1.197, sdk-tools.d.ts; not compared: MultiEdit and LS of earlier versions",
  model: "claude-opus-4-5",
  tools: {
    Read: {
      properties: "file_path! offset limit pages",
      calls: [
        [{ file_path: "a.txt", offset: 2, limit: 1 }, runs("read", { path: "a.txt", offset: 2, limit: 1 }, /2\ttwo/)],
        // A text file has lines instead of pages. The result names them.
        [{ file_path: "a.txt", pages: "1-2" }, reported(/\[lines 1-2 of 3;/)],
      ],
    },
    Write: {
      properties: "file_path! content!",
      calls: [[{ file_path: "new.txt", content: "x" }, runs("write", { path: "new.txt", content: "x" }, /Created/)]],
    },
    Edit: {
      properties: "file_path! old_string! new_string! replace_all",
      calls: [
        [
          { file_path: "a.txt", old_string: "o", new_string: "0", replace_all: true },
          runs("edit", { path: "a.txt", old_string: "o", new_string: "0", replace_all: true }, /Edited/),
        ],
      ],
    },
    MultiEdit: {
      properties: "file_path! edits!",
      calls: [
        [
          { file_path: "a.txt", edits: [{ old_string: "two", new_string: "2" }] },
          runs("multiedit", { path: "a.txt", edits: [{ old_string: "two", new_string: "2" }] }, /Edited/),
        ],
      ],
    },
    Bash: {
      properties: "command! timeout description run_in_background dangerouslyDisableSandbox",
      calls: [
        [
          { command: "sleep 30", timeout: 1000, description: "Wait" },
          runs("bash", { command: "sleep 30", timeout: 1, description: "Wait" }, /stopped after 1 s/),
        ],
        [
          { command: "sleep 30", run_in_background: true },
          runs("bash", { command: "sleep 30", background: true }, /bg-/),
        ],
        [{ command: "touch out", dangerouslyDisableSandbox: true }, refusal("dangerouslyDisableSandbox")],
      ],
    },
    TaskOutput: {
      properties: "task_id! block! timeout!",
      calls: [
        [
          { task_id: JOB, block: true, timeout: 1000 },
          runs("bash_output", { id: JOB, wait_end: true, timeout: 1 }, /running/),
        ],
      ],
    },
    TaskStop: {
      properties: "task_id shell_id",
      calls: [
        [{ task_id: JOB }, runs("bash_stop", { id: JOB })],
        [{ shell_id: JOB }, runs("bash_stop", { id: JOB })],
      ],
    },
    Glob: {
      properties: "pattern! path",
      calls: [[{ pattern: "*.ts", path: "src" }, runs("glob", { pattern: "*.ts", path: "src" }, /b\.ts/)]],
    },
    Grep: {
      properties: "pattern! path glob output_mode -B -A -C context -n -i -o type head_limit offset multiline",
      calls: [
        [{ pattern: "two" }, runs("grep", { pattern: "two", output: "files" }, /a\.txt/)],
        [
          { pattern: "TWO", path: ".", glob: "*.txt", output_mode: "content", "-i": true, "-n": true, head_limit: 5 },
          runs(
            "grep",
            { pattern: "TWO", path: ".", glob: "*.txt", output: "lines", ignore_case: true, limit: 5 },
            /two/,
          ),
        ],
        [
          { pattern: "two", output_mode: "content", "-A": 1, "-B": 0 },
          runs("grep", { pattern: "two", output: "lines", context: 1 }, /one[^]*two[^]*three/),
        ],
        [
          { pattern: "two", output_mode: "content", "-C": 1 },
          runs("grep", { pattern: "two", output: "lines", context: 1 }),
        ],
        [
          { pattern: "two", output_mode: "count", context: 0 },
          runs("grep", { pattern: "two", output: "count", context: 0 }),
        ],
        [{ pattern: "two", "-o": true }, note("-o")],
        [{ pattern: "two", type: "js" }, note("type")],
        [{ pattern: "two", offset: 3 }, note("offset")],
        [{ pattern: "two", multiline: true }, note("multiline")],
      ],
    },
    LS: {
      properties: "path! ignore",
      calls: [
        [{ path: "src" }, runs("list", { path: "src" }, /b\.ts/)],
        [{ path: "src", ignore: ["x"] }, note("ignore")],
      ],
    },
    TodoWrite: {
      properties: "todos!",
      calls: [
        [
          { todos: TODOS.map((todo) => ({ ...todo, activeForm: "doing" })) },
          runs("todowrite", { todos: TODOS }, /\[x\] one/),
        ],
        // Earlier versions have ids and priorities.
        [
          { todos: [{ content: "one", status: "pending", priority: "high", id: "1" }] },
          runs("todowrite", { todos: [{ content: "one", status: "pending", priority: "high" }] }),
        ],
      ],
    },
    WebFetch: {
      properties: "url! prompt!",
      calls: [
        [{ url: URL_PLACEHOLDER, prompt: "Summarize" }, runs("webfetch", { url: URL_PLACEHOLDER }, /hello page/)],
      ],
    },
    WebSearch: {
      properties: "query! allowed_domains blocked_domains",
      calls: [
        [{ query: "x" }, runs("websearch", { query: "x" }, /hello hit/)],
        [
          { query: "x", allowed_domains: ["a.example"], blocked_domains: ["b.example"] },
          note("allowed_domains, blocked_domains"),
        ],
      ],
    },
    AskUserQuestion: {
      properties: "questions!",
      calls: [
        [{ questions: [{ ...QUESTION, options: OPTIONS, multiSelect: false }] }, ASKED],
        [
          { questions: [{ ...QUESTION, options: OPTIONS, multiSelect: true }] },
          reported(/question: expected a string/),
        ],
        [{ questions: [QUESTION, QUESTION] }, reported(/question: expected a string/)],
      ],
    },
    Agent: {
      properties: "description! prompt! subagent_type model run_in_background name team_name mode isolation",
      calls: [
        [
          { description: "Look", prompt: "Look at a.txt", subagent_type: "general-purpose" },
          runs("task", { description: "Look", prompt: "Look at a.txt" }),
        ],
        [
          { description: "Look", prompt: "Look at a.txt", subagent_type: "Explore" },
          runs("task", { description: "Look", prompt: "Look at a.txt", read_only: true }),
        ],
        ...(
          [
            { subagent_type: "reviewer" },
            { model: "opus" },
            { run_in_background: true },
            { name: "helper" },
            { team_name: "team" },
            { mode: "plan" },
            { isolation: "worktree" },
          ] as const
        ).map((extra) => [{ description: "d", prompt: "p", ...extra }, refusal(Object.keys(extra)[0]!)] as const),
      ],
    },
    Skill: {
      properties: "skill! args",
      calls: [
        [{ skill: "pdf" }, runs("skill", { name: "pdf" }, /Skill "pdf" does not exist/)],
        [{ skill: "pdf", args: "x" }, reported(/Skill "pdf" does not exist/)],
      ],
    },
    NotebookEdit: {
      properties: "notebook_path! cell_id new_source! cell_type edit_mode",
      calls: [
        [
          { notebook_path: "a.ipynb", cell_id: "1", new_source: "x", cell_type: "code", edit_mode: "replace" },
          reported(/does not exist.*Instead: change the JSON of the notebook/),
        ],
      ],
    },
    TaskCreate: {
      properties: "subject! description! activeForm metadata",
      calls: [
        [
          { subject: "a", description: "b", activeForm: "c", metadata: {} },
          reported(/does not exist.*Instead: send all steps with todowrite/),
        ],
      ],
    },
    ExitPlanMode: {
      properties: "allowedPrompts",
      calls: [[{ allowedPrompts: [] }, reported(/the user ends plan mode/)]],
    },
  },
};

const CODEX: AgentDialect = {
  agent: "codex",
  source:
    "openai/codex, codex-rs/core/src/tools/handlers/shell_spec.rs at 6c6d291f77c7 and codex-rs/core/src/tools/spec.rs at 001cb8e233f2; not compared: view_image, read_file, list_dir, grep_files, update_plan, request_user_input",
  model: "gpt-5",
  tools: {
    shell: {
      properties: "command! workdir timeout_ms sandbox_permissions justification",
      calls: [
        [
          { command: ["bash", "-lc", "pwd && ls"], workdir: "src" },
          runs("bash", { command: "pwd && ls", workdir: "src" }, /src\n[^]*b\.ts/),
        ],
        [
          { command: ["printf", "%s|", "a b", "c'd"] },
          runs("bash", { command: "printf '%s|' 'a b' 'c'\\''d'" }, /a b\|c'd\|/),
        ],
        [
          { command: ["sleep", "30"], timeout_ms: 900, sandbox_permissions: "use_default" },
          runs("bash", { command: "sleep 30", timeout: 1 }, /stopped after 1 s/),
        ],
        [
          { command: ["touch", "out"], sandbox_permissions: "require_escalated", justification: "needed" },
          refusal("sandbox_permissions"),
        ],
        [{ command: ["apply_patch", PATCH] }, PATCHED],
        [{ command: ["bash", "-lc", `apply_patch <<'EOF'\n${PATCH}\nEOF\n`] }, PATCHED],
      ],
    },
    shell_command: {
      properties: "command! workdir login timeout_ms sandbox_permissions justification prefix_rule",
      calls: [
        [
          { command: "ls", workdir: "src", login: true, timeout_ms: 10_000 },
          runs("bash", { command: "ls", workdir: "src", timeout: 10 }, /b\.ts/),
        ],
        [
          { command: `apply_patch <<EOF\n${PATCH.replace("a.txt", "c.txt")}\nEOF`, workdir: "src" },
          runs("apply_patch", { input: PATCH.replace("a.txt", "src/c.txt") }, /M src\/c\.txt/),
        ],
        [
          {
            command: "touch out",
            prefix_rule: ["touch"],
            sandbox_permissions: "require_escalated",
            justification: "x",
          },
          refusal("prefix_rule, sandbox_permissions"),
        ],
      ],
    },
    exec_command: {
      properties:
        "cmd! workdir tty yield_time_ms max_output_tokens ingress shell login environment_id sandbox_permissions justification prefix_rule additional_permissions",
      calls: [
        [
          { cmd: "ls", workdir: "src", yield_time_ms: 1000, max_output_tokens: 500, shell: "/bin/bash", login: true },
          runs("bash", { command: "ls", workdir: "src", yield_time_ms: 1000 }, /b\.ts/),
        ],
        // Time: the command takes longer than yield_time_ms.
        [
          { cmd: "sleep 0.2; echo end", yield_time_ms: 100 },
          runs(
            "bash",
            { command: "sleep 0.2; echo end", yield_time_ms: 100 },
            /^end\n.*\n\[yield_time_ms has no effect/,
          ),
        ],
        ...(
          [
            { tty: true },
            { ingress: 8080 },
            { shell: "fish" },
            { environment_id: "e" },
            { sandbox_permissions: "with_additional_permissions" },
            { prefix_rule: ["touch"] },
            { additional_permissions: { network: { enabled: true } } },
          ] as const
        ).map(
          (extra) => [{ cmd: "touch out", justification: "x", ...extra }, refusal(Object.keys(extra)[0]!)] as const,
        ),
        [
          { cmd: `cd src && apply_patch <<'PATCH'\n${PATCH.replace("a.txt", "c.txt")}\nPATCH` },
          runs("apply_patch", { input: PATCH.replace("a.txt", "src/c.txt") }),
        ],
      ],
    },
    write_stdin: {
      properties: "session_id! chars yield_time_ms max_output_tokens",
      calls: [
        [
          { session_id: JOB, chars: "", yield_time_ms: 1000, max_output_tokens: 100 },
          runs("bash_output", { id: JOB, wait_end: true, timeout: 1 }, /running/),
        ],
        [{ session_id: JOB, chars: "y\n" }, runs("bash_input", { id: JOB, text: "y\n", newline: false })],
      ],
    },
    update_plan: {
      properties: "explanation plan!",
      calls: [
        [
          { explanation: "why", plan: TODOS.map(({ content, status }) => ({ step: content, status })) },
          runs("todowrite", { explanation: "why", todos: TODOS }, /\[x\] one/),
        ],
      ],
    },
    apply_patch: { properties: "input!", calls: [[{ input: PATCH }, PATCHED]] },
    view_image: {
      properties: "path! detail",
      calls: [[{ path: "a.png", detail: "original" }, runs("read", { path: "a.png" })]],
    },
    read_file: {
      properties: "file_path! offset limit mode indentation",
      calls: [
        [
          { file_path: "a.txt", offset: 2, limit: 1, mode: "slice" },
          runs("read", { path: "a.txt", offset: 2, limit: 2 }, /2\ttwo/),
        ],
        [{ file_path: "a.txt", mode: "indentation", indentation: { anchor_line: 1 } }, note("indentation, mode")],
      ],
    },
    list_dir: {
      properties: "dir_path! offset limit depth",
      calls: [
        [{ dir_path: "." }, runs("list", { path: ".", depth: 2 }, /b\.ts/)],
        [{ dir_path: ".", depth: 1 }, runs("list", { path: ".", depth: 1 })],
        [{ dir_path: ".", offset: 1, limit: 5 }, note("offset, limit")],
      ],
    },
    grep_files: {
      properties: "pattern! include path limit",
      calls: [
        [
          { pattern: "two", include: "*.txt", path: ".", limit: 5 },
          runs("grep", { pattern: "two", glob: "*.txt", path: ".", limit: 5, output: "files" }, /a\.txt/),
        ],
      ],
    },
    request_user_input: {
      properties: "questions!",
      calls: [[{ questions: [{ id: "q", ...QUESTION, options: OPTIONS }] }, ASKED]],
    },
  },
};

const OPENCODE: AgentDialect = {
  agent: "opencode",
  source:
    "anomalyco/opencode, packages/opencode/src/tool: bash.ts at 00376c261d1d, read.ts and edit.ts at 00937b92a3d7, grep.ts at 082eeb9612f3, todo.ts at 0fbbcdb58b83, task.ts at 005201e9a25c, webfetch.ts at 032cb74b095f, question.ts at 08103a5dbdee, ls.ts at 134534512d91",
  model: "claude-opus-4-5",
  tools: {
    bash: {
      properties: "command! timeout description! workdir",
      calls: [
        [
          { command: "sleep 30", timeout: 1000, description: "Wait" },
          runs("bash", { command: "sleep 30", timeout: 1000, description: "Wait" }, /stopped after 1 s/),
        ],
        [
          { command: "ls", workdir: "src", description: "List" },
          runs("bash", { command: "ls", workdir: "src", description: "List" }, /b\.ts/),
        ],
      ],
    },
    read: {
      properties: "filePath! offset limit",
      calls: [
        [{ filePath: "a.txt", offset: 2, limit: 1 }, runs("read", { path: "a.txt", offset: 2, limit: 1 }, /2\ttwo/)],
      ],
    },
    write: {
      properties: "filePath! content!",
      calls: [[{ filePath: "new.txt", content: "x" }, runs("write", { path: "new.txt", content: "x" })]],
    },
    edit: {
      properties: "filePath! oldString! newString! replaceAll",
      calls: [
        [
          { filePath: "a.txt", oldString: "o", newString: "0", replaceAll: true },
          runs("edit", { path: "a.txt", old_string: "o", new_string: "0", replace_all: true }, /Edited/),
        ],
        [{ filePath: "a.txt", oldString: "", newString: "x" }, reported(/old_string: expected/)],
      ],
    },
    list: {
      properties: "path ignore",
      calls: [
        [{ path: "src" }, runs("list", { path: "src" })],
        [{ path: "src", ignore: ["x"] }, note("ignore")],
      ],
    },
    glob: {
      properties: "pattern! path",
      calls: [[{ pattern: "*.ts", path: "src" }, runs("glob", { pattern: "*.ts", path: "src" })]],
    },
    grep: {
      properties: "pattern! path include",
      calls: [
        [
          { pattern: "two", path: ".", include: "*.txt" },
          runs("grep", { pattern: "two", path: ".", glob: "*.txt" }, /two/),
        ],
      ],
    },
    todowrite: {
      properties: "todos!",
      calls: [
        [
          { todos: TODOS.map((todo) => ({ ...todo, priority: "high" })) },
          runs("todowrite", { todos: TODOS.map((todo) => ({ ...todo, priority: "high" })) }, /\[x\] one/),
        ],
      ],
    },
    task: {
      properties: "description! prompt! subagent_type! task_id command",
      calls: [
        [
          { description: "Look", prompt: "p", subagent_type: "general" },
          runs("task", { description: "Look", prompt: "p" }),
        ],
        [{ description: "d", prompt: "p", subagent_type: "general", task_id: "t" }, refusal("task_id")],
        [{ description: "d", prompt: "p", subagent_type: "general", command: "c" }, refusal("command")],
      ],
    },
    webfetch: {
      properties: "url! format timeout",
      calls: [
        [{ url: URL_PLACEHOLDER, format: "markdown" }, runs("webfetch", { url: URL_PLACEHOLDER }, /hello page/)],
        [{ url: URL_PLACEHOLDER, format: "html" }, runs("webfetch", { url: URL_PLACEHOLDER, raw: true }, /<p>/)],
        [{ url: URL_PLACEHOLDER, timeout: 5 }, note("timeout")],
      ],
    },
    question: {
      properties: "questions!",
      calls: [[{ questions: [{ ...QUESTION, options: OPTIONS, multiple: false }] }, ASKED]],
    },
    apply_patch: { properties: "patchText!", calls: [[{ patchText: PATCH }, missing]] },
  },
};

const GEMINI: AgentDialect = {
  agent: "gemini-cli",
  source:
    "google-gemini/gemini-cli 0.56.0-nightly.20260806 (5411f113cafa), packages/core/src/tools/definitions; search_file_content and read_file with absolute_path: earlier versions",
  model: "gemini-3-pro-preview",
  tools: {
    read_file: {
      properties: "file_path! start_line end_line",
      calls: [
        [
          { file_path: "a.txt", start_line: 2, end_line: 2 },
          runs("read", { path: "a.txt", offset: 2, limit: 1 }, /2\ttwo/),
        ],
        [{ file_path: "a.txt", end_line: 1 }, runs("read", { path: "a.txt", limit: 1 }, /1\tone/)],
      ],
    },
    write_file: {
      properties: "file_path! content!",
      calls: [[{ file_path: "new.txt", content: "x" }, runs("write", { path: "new.txt", content: "x" })]],
    },
    replace: {
      properties: "file_path! instruction! old_string! new_string! allow_multiple expected_replacements",
      calls: [
        [
          { file_path: "a.txt", instruction: "Number it", old_string: "two", new_string: "2" },
          runs("edit", EDIT, /Edited/),
        ],
        [
          { file_path: "a.txt", instruction: "i", old_string: "o", new_string: "0", allow_multiple: true },
          runs("edit", { path: "a.txt", old_string: "o", new_string: "0", replace_all: true }, /Edited/),
        ],
        [
          { file_path: "a.txt", instruction: "i", old_string: "two", new_string: "2", expected_replacements: 1 },
          runs("edit", EDIT),
        ],
        [
          { file_path: "a.txt", instruction: "i", old_string: "o", new_string: "0", expected_replacements: 2 },
          refusal("expected_replacements"),
        ],
      ],
    },
    run_shell_command: {
      properties: "command! description dir_path is_background delay_ms additional_permissions",
      calls: [
        [
          { command: "ls", description: "List", dir_path: "src", is_background: false },
          runs("bash", { command: "ls", description: "List", workdir: "src", background: false }, /b\.ts/),
        ],
        [{ command: "sleep 30", is_background: true }, runs("bash", { command: "sleep 30", background: true }, /bg-/)],
        [{ command: "touch out", delay_ms: 5 }, refusal("delay_ms")],
        [{ command: "touch out", additional_permissions: { network: true } }, refusal("additional_permissions")],
      ],
    },
    grep_search: {
      properties:
        "pattern! dir_path include_pattern exclude_pattern names_only case_sensitive fixed_strings context after before no_ignore max_matches_per_file total_max_matches",
      calls: [
        [
          { pattern: "TWO", dir_path: ".", include_pattern: "*.txt", total_max_matches: 9 },
          runs("grep", { pattern: "TWO", path: ".", glob: "*.txt", limit: 9, ignore_case: true }, /two/),
        ],
        [{ pattern: "TWO", case_sensitive: true }, runs("grep", { pattern: "TWO", ignore_case: false }, /No match/)],
        [
          { pattern: "t.o", fixed_strings: true, names_only: true, no_ignore: true },
          runs("grep", { pattern: "t.o", literal: true, output: "files", all: true, ignore_case: true }, /No match/),
        ],
        [{ pattern: "two", context: 1 }, runs("grep", { pattern: "two", context: 1, ignore_case: true })],
        [{ pattern: "two", after: 1, before: 2 }, runs("grep", { pattern: "two", context: 2, ignore_case: true })],
        [{ pattern: "two", exclude_pattern: "three" }, note("exclude_pattern")],
        [{ pattern: "two", max_matches_per_file: 1 }, note("max_matches_per_file")],
      ],
    },
    search_file_content: {
      properties: "pattern! path include",
      calls: [
        [
          { pattern: "TWO", path: ".", include: "*.txt" },
          runs("grep", { pattern: "TWO", path: ".", glob: "*.txt", ignore_case: true }, /two/),
        ],
      ],
    },
    glob: {
      properties: "pattern! dir_path case_sensitive respect_git_ignore respect_gemini_ignore",
      calls: [
        [
          {
            pattern: "*.ts",
            dir_path: "src",
            case_sensitive: true,
            respect_git_ignore: true,
            respect_gemini_ignore: true,
          },
          runs("glob", { pattern: "*.ts", path: "src" }, /b\.ts/),
        ],
        [{ pattern: "*.ts", respect_git_ignore: false }, runs("glob", { pattern: "*.ts", all: true })],
      ],
    },
    list_directory: {
      properties: "dir_path! ignore file_filtering_options",
      calls: [
        [{ dir_path: "src" }, runs("list", { path: "src" })],
        [{ dir_path: ".", file_filtering_options: { respect_git_ignore: false } }, ALL_FILES],
        [{ dir_path: "src", ignore: ["x"] }, note("ignore")],
      ],
    },
    web_fetch: {
      properties: "prompt!",
      calls: [
        [{ prompt: `Summarize ${URL_PLACEHOLDER}.` }, runs("webfetch", { url: URL_PLACEHOLDER }, /hello page/)],
        [{ prompt: `Compare ${URL_PLACEHOLDER} and $URL/other` }, reported(/url: expected a string/)],
      ],
    },
    google_web_search: {
      properties: "query!",
      calls: [[{ query: "x" }, runs("websearch", { query: "x" }, /hello hit/)]],
    },
    write_todos: {
      properties: "todos!",
      calls: [
        [
          { todos: TODOS.map(({ content, status }) => ({ description: content, status })) },
          runs("todowrite", { todos: TODOS }, /\[x\] one/),
        ],
        [{ todos: [{ description: "a", status: "blocked" }] }, reported(/status: expected one of/)],
      ],
    },
    ask_user: {
      properties: "questions!",
      calls: [
        [{ questions: [{ ...QUESTION, type: "choice", options: OPTIONS, multiSelect: false }] }, ASKED],
        [
          { questions: [{ ...QUESTION, type: "yesno" }] },
          runs("ask_user", { question: "Which?", choices: ["Yes", "No"], free_text: true }),
        ],
        [{ questions: [{ ...QUESTION, type: "text", placeholder: "p" }] }, runs("ask_user", { question: "Which?" })],
      ],
    },
    activate_skill: {
      properties: "name!",
      calls: [[{ name: "pdf" }, runs("skill", { name: "pdf" }, /Skill "pdf" does not exist/)]],
    },
    read_many_files: {
      properties: "include! exclude recursive useDefaultExcludes file_filtering_options",
      calls: [
        [
          {
            include: ["*.ts"],
            exclude: [],
            recursive: true,
            useDefaultExcludes: true,
            file_filtering_options: {},
          },
          reported(/does not exist.*Instead: call read once for each file/),
        ],
      ],
    },
    exit_plan_mode: {
      properties: "plan_filename!",
      calls: [[{ plan_filename: "plan.md" }, reported(/the user ends plan mode/)]],
    },
  },
};

const QWEN: AgentDialect = {
  agent: "qwen-code",
  source: "@qwen-code/qwen-code 0.15.10, cli.js",
  model: "qwen3-coder-plus",
  tools: {
    read_file: {
      properties: "file_path! offset limit pages",
      calls: [
        // Line 1 is the second line: the result contains it, with its number.
        [{ file_path: "a.txt", offset: 1, limit: 1 }, runs("read", { path: "a.txt", offset: 1, limit: 2 }, /2\ttwo/)],
        [{ file_path: "a.txt", offset: 0, limit: 1 }, runs("read", { path: "a.txt", offset: 1, limit: 1 }, /1\tone/)],
        [{ file_path: "a.txt", pages: "1" }, reported(/\[lines 1-1 of 3;/)],
      ],
    },
    write_file: {
      properties: "file_path! content!",
      calls: [[{ file_path: "new.txt", content: "x" }, runs("write", { path: "new.txt", content: "x" })]],
    },
    edit: {
      properties: "file_path! old_string! new_string! replace_all",
      calls: [
        [
          { file_path: "a.txt", old_string: "o", new_string: "0", replace_all: true },
          runs("edit", { path: "a.txt", old_string: "o", new_string: "0", replace_all: true }),
        ],
      ],
    },
    run_shell_command: {
      properties: "command! is_background timeout description directory",
      calls: [
        [
          { command: "sleep 30", is_background: false, timeout: 1000, description: "Wait", directory: "src" },
          runs(
            "bash",
            { command: "sleep 30", background: false, timeout: 1, description: "Wait", workdir: "src" },
            /stopped after 1 s/,
          ),
        ],
      ],
    },
    grep_search: {
      properties: "pattern! glob path limit",
      calls: [
        [
          { pattern: "TWO", glob: "*.txt", path: ".", limit: 5 },
          runs("grep", { pattern: "TWO", glob: "*.txt", path: ".", limit: 5, ignore_case: true }, /two/),
        ],
      ],
    },
    glob: {
      properties: "pattern! path",
      calls: [[{ pattern: "*.ts", path: "src" }, runs("glob", { pattern: "*.ts", path: "src" })]],
    },
    list_directory: {
      properties: "path! ignore file_filtering_options",
      calls: [
        [{ path: ".", file_filtering_options: { respect_git_ignore: false, respect_qwen_ignore: true } }, ALL_FILES],
        [{ path: "src", ignore: ["x"] }, note("ignore")],
      ],
    },
    todo_write: {
      properties: "todos!",
      calls: [
        [
          { todos: TODOS.map((todo, i) => ({ ...todo, id: String(i) })) },
          runs("todowrite", { todos: TODOS }, /\[x\] one/),
        ],
      ],
    },
    web_fetch: {
      properties: "url! prompt! format",
      calls: [
        [
          { url: URL_PLACEHOLDER, prompt: "Summarize", format: "auto" },
          runs("webfetch", { url: URL_PLACEHOLDER }, /hello page/),
        ],
      ],
    },
    agent: {
      properties: "description! prompt! subagent_type run_in_background",
      calls: [
        [
          { description: "Look", prompt: "p", subagent_type: "general-purpose" },
          runs("task", { description: "Look", prompt: "p" }),
        ],
        [{ description: "d", prompt: "p", run_in_background: true }, refusal("run_in_background")],
      ],
    },
    ask_user_question: {
      properties: "questions! metadata",
      calls: [
        [{ questions: [{ ...QUESTION, options: OPTIONS, multiSelect: false }] }, ASKED],
        [{ questions: [{ ...QUESTION, options: OPTIONS }], metadata: { source: "x" } }, refusal("metadata")],
      ],
    },
    skill: {
      properties: "skill!",
      calls: [[{ skill: "pdf" }, runs("skill", { name: "pdf" }, /Skill "pdf" does not exist/)]],
    },
    task_stop: { properties: "task_id!", calls: [[{ task_id: JOB }, runs("bash_stop", { id: JOB })]] },
    lsp: { properties: "operation!", calls: [[{ operation: "hover" }, missing]] },
  },
};

const PI: AgentDialect = {
  agent: "pi",
  source: "badlogic/pi-mono 0.58.3 (83378aad7e74), packages/coding-agent/src/core/tools",
  model: "claude-opus-4-5",
  tools: {
    bash: {
      properties: "command! timeout",
      calls: [
        [{ command: "sleep 30", timeout: 1 }, runs("bash", { command: "sleep 30", timeout: 1 }, /stopped after 1 s/)],
      ],
    },
    read: {
      properties: "path! offset limit",
      calls: [[{ path: "a.txt", offset: 2, limit: 1 }, runs("read", { path: "a.txt", offset: 2, limit: 1 }, /2\ttwo/)]],
    },
    write: {
      properties: "path! content!",
      calls: [[{ path: "new.txt", content: "x" }, runs("write", { path: "new.txt", content: "x" })]],
    },
    edit: {
      properties: "path! oldText! newText! edits",
      calls: [
        [{ path: "a.txt", oldText: "two", newText: "2" }, runs("edit", EDIT, /Edited/)],
        // Later versions take a list of edits.
        [
          { path: "a.txt", edits: [{ oldText: "two", newText: "2" }] },
          runs("multiedit", { path: "a.txt", edits: [{ old_string: "two", new_string: "2" }] }, /Edited/),
        ],
        [
          { path: "a.txt", edits: [{ oldText: "o", newText: "0", count: 2 }] },
          reported(/unknown argument edits\[0\]\.count\. The call did not run/),
        ],
      ],
    },
    ls: {
      properties: "path limit",
      calls: [
        [{ path: "src" }, runs("list", { path: "src" })],
        [{ path: "src", limit: 5 }, note("limit")],
      ],
    },
    find: {
      properties: "pattern! path limit",
      calls: [
        [{ pattern: "*.ts", path: "src" }, runs("glob", { pattern: "*.ts", path: "src" }, /b\.ts/)],
        [{ pattern: "*.ts", limit: 5 }, note("limit")],
      ],
    },
    grep: {
      properties: "pattern! path glob ignoreCase literal context limit",
      calls: [
        [
          { pattern: "TWO", path: ".", glob: "*.txt", ignoreCase: true, literal: true, context: 0, limit: 3 },
          runs(
            "grep",
            { pattern: "TWO", path: ".", glob: "*.txt", ignore_case: true, literal: true, context: 0, limit: 3 },
            /two/,
          ),
        ],
      ],
    },
  },
};

/** Anthropic's text editor tools, which Claude knows without any agent. */
const TEXT_EDITOR: AgentDialect = {
  agent: "Anthropic's text editor",
  source: "docs.claude.com, text editor tool: text_editor_20241022 and text_editor_20250728; not compared",
  model: "claude-opus-4-5",
  tools: Object.fromEntries(
    ["str_replace_editor", "str_replace_based_edit_tool"].map((name): [string, DialectTool] => [
      name,
      {
        properties: "command! path! view_range file_text old_str new_str insert_line insert_text",
        calls: [
          [
            { command: "view", path: "a.txt", view_range: [2, 2] },
            runs("read", { path: "a.txt", offset: 2, limit: 1 }, /2\ttwo/),
          ],
          [
            { command: "view", path: "a.txt", view_range: [2, -1] },
            runs("read", { path: "a.txt", offset: 2 }, /3\tthree/),
          ],
          [{ command: "create", path: "new.txt", file_text: "x" }, runs("write", { path: "new.txt", content: "x" })],
          [{ command: "str_replace", path: "a.txt", old_str: "two", new_str: "2" }, runs("edit", EDIT)],
          [
            { command: "insert", path: "a.txt", insert_line: 1, insert_text: "x" },
            reported(/does not exist.*command "insert" has no counterpart/),
          ],
        ],
      },
    ]),
  ),
};

export const AGENT_DIALECTS: readonly AgentDialect[] = [CLAUDE, CODEX, OPENCODE, GEMINI, QWEN, PI, TEXT_EDITOR];
