import type { CommandHandler } from "./command.js";

/** `gantry sessions ...`: loads only the requested subcommand. */
export const run: CommandHandler = async (context) => {
  const descriptions = await import("./descriptions/sessions.js");
  const { apply, archive, exportDescription, importDescription, list, search, show, unarchive, undo } = descriptions;
  switch (context.name) {
    case archive.name:
    case unarchive.name:
      return (await import("./sessions-archive.js")).run(context);
    case apply.name:
      return (await import("./sessions-apply.js")).run(context);
    case exportDescription.name:
    case importDescription.name:
      return (await import("./transfer/transfer.js")).run(context);
    case list.name:
      return (await import("./sessions-list.js")).run(context);
    case search.name:
      return (await import("./sessions-search.js")).run(context);
    case show.name:
      return (await import("./sessions-show.js")).run(context);
    case undo.name:
      return (await import("./sessions-undo.js")).run(context);
    default:
      return (await import("./sessions-delete.js")).run(context);
  }
};
