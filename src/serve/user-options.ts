import { resolve } from "node:path";
import type { UserOptions } from "../http/request-users.js";
import { ConfigError } from "../ports/errors.js";
import type { LoadedConfig } from "./config.js";

/** Returns how the listener identifies users. Throws `ConfigError` for keys that do not fit together. */
export function getUserOptions({ file, config: { server } }: LoadedConfig, home: string): UserOptions {
  const { tokens, trustedUserHeader, trustedProxies } = server;
  const sendsAuthorization = Object.keys(server.requiredHeaders).some((name) => name.toLowerCase() === "authorization");
  if (tokens !== "" && sendsAuthorization)
    throw new ConfigError(`${file}: server.tokens: expected no Authorization in server.required_headers beside it`);
  if (trustedUserHeader !== "" && trustedProxies.length === 0)
    throw new ConfigError(`${file}: server.trusted_user_header: expected server.trusted_proxies beside it`);
  return {
    tokenFile: tokens === "" ? undefined : resolve(home, tokens),
    trustedUserHeader: trustedUserHeader === "" ? undefined : trustedUserHeader,
    trustedProxies: trustedUserHeader === "" ? undefined : trustedProxies,
  };
}
