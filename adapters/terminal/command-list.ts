/** Commands that a user can type instead of a prompt. */
export const COMMANDS: readonly (readonly [name: string, description: string])[] = [
  ["help", "keys and commands"],
  ["new", "begin a new session"],
  ["sessions", "continue another session, or delete one"],
  ["model", "choose the model"],
  ["mode", "set the permission mode: auto, ask, plan"],
  ["effort", "set the reasoning effort"],
  ["title", "set the title of this session"],
  ["cost", "tokens and cost of this session"],
  ["compact", "summarize the conversation; add what to keep"],
  ["delete", "delete this session"],
  ["stop", "stop the current run"],
  ["mouse", "the wheel scrolls, or the terminal selects text"],
  ["quit", "quit; a run continues only on a server"],
];
