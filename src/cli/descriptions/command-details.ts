/**
 * Further paragraphs of the help, by the command's name. They are not in the descriptions, because each start of the
 * terminal loads the descriptions.
 */
export const COMMAND_DETAILS: Readonly<Record<string, string>> = {
  chat: `  Without --url, chat starts an agent in this folder that stops with it. With --url it connects to a running agent, whose
  runs continue. /help explains multi-line prompts, files named with @, and commands such as /model.`,
  init: `At a terminal, init lists the providers whose key is in the environment and the local servers that run, and asks for
the rest. A typed key is not shown. The key is checked with a request for the list of models. The config in gantry's home
folder is changed in place: comments and other keys are kept. The project folder is never written to.`,
  run: `The model's text is streamed to stdout, its tool calls are reported on stderr. The prompt is the arguments, or
standard input, or both, the arguments first. Put a prompt that begins with - after --.

No user can answer: a tool call that needs permission is denied, unless permissions.unattended in the config
differs, and a question of the model stays unanswered. Sessions in mode auto need no permission.

Exit codes
  0    done
  1    failed
  2    invalid command line; nothing was started
  3    ended at a budget or at the maximum number of iterations
  4    done, but a tool call was denied
  130  interrupted (SIGINT; 143 by SIGTERM, 129 by SIGHUP, 141 if stdout was closed); the messages are stored`,
  serve: "The agent works in the current folder. Its tools run without permission requests.",
  console: `If the server requires headers, the address contains a code that works once, for one minute.
Without a browser the address is printed.`,
  "sessions search": "A message matches if it contains all words. The last word may be the start of a word.",
  "sessions delete": "Active runs of these sessions are cancelled first.",
  "sessions undo":
    "Files are restored to their content before gantry's own tools changed them. Changes by commands, other programs and other machines remain. " +
    "If such a file was changed afterwards, or no copy of it is stored, nothing is undone without --force.",
  "sessions apply":
    "For sessions that gantry run --worktree or a client started in a Git worktree. All changes since the last call are applied, or none: " +
    "a file that was changed in the same place in the project folder prevents it.",
  doctor:
    "Nothing is changed: no store is migrated and no folder is created. MCP servers are started and stopped, and providers are asked for their lists of models. " +
    "The exit code is 1 if a check finds an error.",
  models: "With TEXT, only models whose name contains it are listed. Prices are USD per million tokens.",
  "mcp list":
    "The servers start in this folder, as for a session here, and are stopped afterwards. The exit code is 1 if one of them fails.",
  "mcp login":
    "For servers with a url that ask for a login (OAuth). gantry stores and refreshes the tokens. " +
    "If the browser runs on another machine, paste the address of its redirect.",
  "mcp serve": "For MCP clients, which start it in the folder that it works on.",
  adapters: "Nothing is started. The exit code is 1 if a selected adapter cannot be used.",
  check: `MODULE is a file or a package. Its default export and its named exports are checked. Relative paths in options start in a
temporary folder, which is removed. A transport needs a fixture with connect (a client), a provider one with text and toolCall
(what its model answers), a tool one with create (its arguments); without it, the checks that need them are left out.

Exit codes
  0    all checks passed
  1    a check failed
  2    the command line is wrong, or MODULE exports no adapter`,
  new: `NAME is the name of the package. The folder must be empty or missing. The code is taken from the pages in docs.`,
  completion: `bash: eval "$(gantry completion bash)", in ~/.bashrc
zsh:  eval "$(gantry completion zsh)", in ~/.zshrc after compinit
fish: gantry completion fish > ~/.config/fish/completions/gantry.fish`,
};
