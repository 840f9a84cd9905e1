import { ConfigError } from "../ports/errors.js";

/** Parses the value of `--url`. Throws `ConfigError`. */
export function parseAddress(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (!address || !/^https?:$/.test(address.protocol) || address.username !== "" || address.pathname !== "/")
    throw new ConfigError(`--url: expected an address like http://127.0.0.1:8080, got ${JSON.stringify(url)}`);
  return address;
}

/** Parses the value of `--model`: `MODEL` or `PROVIDER/MODEL`. */
export function parseModel(model: string): { provider?: string; model?: string } {
  const slashIndex = model.indexOf("/");
  return slashIndex === -1 ? { model } : { provider: model.slice(0, slashIndex), model: model.slice(slashIndex + 1) };
}

/** Checks `--worktree`, which is for new sessions. Throws `ConfigError`. */
export function checkWorktree(flags: { session?: string | undefined; continue?: boolean | undefined }): void {
  if (flags.session !== undefined || flags.continue)
    throw new ConfigError("--worktree: expected a new session, not --session or --continue");
}
