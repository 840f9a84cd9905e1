/** Terminal interface of a served agent. It uses only `gantry/client`. */
export { openTerminal, type TerminalOptions } from "./terminal.js";
