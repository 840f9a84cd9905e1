/** The terminal of a served agent: a person's door, built on `gantry/client` alone. */
export { openTerminal, type TerminalOptions } from "./terminal.js";
