/**
 * Code that the first paint does not need. One module for all of it, because each separately imported module adds
 * scripts to the first load: the build puts code that modules share into scripts of its own.
 */
export { startDesktopNotifications } from "./attention/desktop-notifications.js";
export { ComposerPastes } from "./composer-pastes.js";
export { ContextMeter } from "./context-meter/context-meter.js";
export { ConversationPanel } from "./context-meter/conversation-panel.js";
export { Changes } from "./changes/changes.js";
export { FolderField } from "./projects/folder-field.js";
export { Help } from "./help.js";
export { McpServers } from "./mcp-servers.js";
export { Palette } from "./palette.js";
export { CommandRows, StoredCommand } from "./person-commands/command-rows.js";
export { runCommand } from "./person-commands/person-commands.js";
export { Preview } from "./preview/preview.js";
export { Questions } from "./questions.js";
export { RewindDialog } from "./rewind/rewind-dialog.js";
export { Runs } from "./runs.js";
export { Search } from "./search/search.js";
export { Settings } from "./settings.js";
export { Spending } from "./spending.js";
