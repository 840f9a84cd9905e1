import { parseHostRule } from "../http/host-rules.js";
import { ConfigError } from "../ports/errors.js";

/** Throws `ConfigError` for an entry of `tools.bash.network` that is no host. */
export function checkHosts(file: string, hosts: readonly string[]): void {
  const invalidHost = hosts.find((host) => parseHostRule(host) === undefined);
  if (invalidHost !== undefined)
    throw new ConfigError(
      `${file}: tools.bash.network: expected hosts such as registry.npmjs.org, *.example.com or example.com:8443, got ${JSON.stringify(invalidHost)}`,
    );
}
