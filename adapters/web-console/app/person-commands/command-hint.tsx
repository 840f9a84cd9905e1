import type { TypedCommand } from "./typed-command.js";

/** Hint above the prompt that describes the effect of a typed command. */
export function CommandHint({ typedCommand }: { typedCommand: TypedCommand | undefined }) {
  if (!typedCommand) return null;
  return (
    <p class="composer-hint" role="status">
      {typedCommand.isShared
        ? "Runs a shell command. The model sees it with the next prompt. !! hides it from the model."
        : "Runs a shell command. The model does not see it."}
    </p>
  );
}
