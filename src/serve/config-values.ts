import { ConfigError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import { decodeUri, headerSecrets, isSecretName, looksSecret } from "../base/redact.js";

export interface Expansion {
  file: string;
  environment(name: string): string | undefined;
  /** Values of environment variables with secret names. */
  secrets: Set<string>;
  /** Values of all other environment variables, except paths. */
  expanded: Set<string>;
}

/** Keys of store addresses. */
const STORE_ADDRESS_KEYS: ReadonlySet<string> = new Set(["session.url", "session.pool.listen_url"]);

/**
 * Replaces `${NAME}` in all strings with the environment variable. `$${NAME}` becomes the literal `${NAME}`. Throws
 * `ConfigError` if a variable is not set.
 */
export function expand(value: unknown, into: Expansion, path = ""): unknown {
  if (typeof value === "string") {
    return value.replace(
      /\$(\$\{[A-Za-z_][A-Za-z0-9_]*\})|\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g,
      (_all, literal: string | undefined, name: string) => {
        if (literal !== undefined) return literal;
        const variableValue = into.environment(name);
        if (variableValue === undefined)
          throw new ConfigError(`${into.file}: ${path}: expected the environment variable ${name} to be set`);
        // The secrets of a store's address are collected from the full address, so that messages can show its host.
        const isAddress = STORE_ADDRESS_KEYS.has(path) && (!isSecretName(name) || /^[a-z]+:\/\//i.test(variableValue));
        if (isPath(variableValue) || isAddress) return variableValue;
        (isSecretName(name) ? into.secrets : into.expanded).add(variableValue);
        return variableValue;
      },
    );
  }
  if (Array.isArray(value)) return value.map((item, i) => expand(item, into, `${path}[${i}]`));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, expand(item, into, path === "" ? key : `${path}.${key}`)]),
    );
  }
  return value;
}

function isPath(value: string): boolean {
  return /^(~|\.{1,2})?\/|^[A-Za-z]:\\/.test(value) && !looksSecret(value);
}

/**
 * Collects secrets: values of secret keys, required headers, authentication headers, and values that look like keys.
 * `server.headers` are public response headers.
 */
export function gatherSecrets(config: unknown, secrets: Set<string>): void {
  const isAnswered = isRecord(config) && isRecord(config["server"]);
  const shown = isAnswered ? { ...config, server: { ...(config["server"] as object), headers: {} } } : config;
  gather(
    isRecord(shown) && isRecord(shown["session"])
      ? { ...shown, session: gatherStore(shown["session"], secrets) }
      : shown,
    secrets,
  );
}

/** Collects the credentials of the store's addresses. Messages can show the host. Returns the remaining options. */
function gatherStore(
  { url, pool, ...sessionOptions }: Record<string, unknown>,
  secrets: Set<string>,
): Record<string, unknown> {
  gatherAddress(url, secrets);
  if (!isRecord(pool)) return { ...sessionOptions, pool };
  const { listen_url: listenUrl, ...poolOptions } = pool;
  gatherAddress(listenUrl, secrets);
  return { ...sessionOptions, pool: poolOptions };
}

function gatherAddress(url: unknown, secrets: Set<string>): void {
  if (typeof url !== "string" || url === "") return;
  // Without a host, as for a Unix socket, some parsers reject the URL.
  const fullUrl = url.replace(/^([a-z]+:\/\/[^/?#]*@)(?=[/?]|$)/i, "$1localhost");
  const [start = ""] = /^[a-z]+:\/\/[^/?#]*@/i.exec(url) ?? [];
  // In an address that cannot be parsed reliably, a part of the password could appear as the host. Treat all of it as
  // secret.
  if (!/^[a-z]+:\/\//i.test(url) || !URL.canParse(fullUrl) || (start === "" && url.includes("@"))) {
    secrets.add(url);
    return;
  }
  const { password, searchParams } = new URL(fullUrl);
  const querySecrets = [...searchParams].flatMap(([name, value]) => (isSecretName(name) ? [value] : []));
  for (const secret of [start, password, decodeUri(password), ...querySecrets]) if (secret !== "") secrets.add(secret);
}

function gather(value: unknown, secrets: Set<string>, name = ""): void {
  if (typeof value === "string") {
    if (isSecretName(name) || looksSecret(value)) secrets.add(value);
    // In an address with a password, both the address and the password are secret.
    if (!value.includes("@") || !URL.canParse(value) || new URL(value).password === "") return;
    const { password } = new URL(value);
    secrets.add(value).add(password).add(decodeUri(password));
  } else if (Array.isArray(value)) {
    for (const item of value) gather(item, secrets, name);
  } else if (isRecord(value)) {
    for (const [key, item] of Object.entries(value)) {
      if (isRecord(item) && (key === "headers" || key === "required_headers")) {
        // All required headers are secret, because they grant access.
        for (const header of key === "headers" ? headerSecrets(item) : Object.values(item))
          if (typeof header === "string" && header !== "") secrets.add(header).add(header.split(" ").at(-1) ?? header);
      } else gather(item, secrets, isSecretName(name) ? name : key);
    }
  }
}
