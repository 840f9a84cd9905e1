import { ConfigError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import { decodeUri, headerSecrets, isSecretName, looksSecret } from "../base/secret-detection.js";

/** Input of `expandVariables`, and the sets to which it adds the values of variables. */
export interface ExpansionContext {
  /** Path of the config file, for error messages. */
  file: string;
  readVariable(name: string): string | undefined;
  /** Values of environment variables with secret names. */
  secrets: Set<string>;
  /** Values of all other environment variables, except paths. */
  nonSecretValues: Set<string>;
}

/** Key paths of the addresses of stores. */
const STORE_ADDRESS_KEYS: ReadonlySet<string> = new Set(["session.url", "session.pool.listen_url"]);

/**
 * Returns `value` with the environment variable in place of each `${NAME}`. `$${NAME}` becomes the literal `${NAME}`.
 * `path` is the key path of `value`. Throws `ConfigError` if a variable is not set.
 */
export function expandVariables(value: unknown, context: ExpansionContext, path = ""): unknown {
  if (typeof value === "string") {
    return value.replace(
      /\$(\$\{[A-Za-z_][A-Za-z0-9_]*\})|\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g,
      (_all, literal: string | undefined, name: string) => {
        if (literal !== undefined) return literal;
        const variableValue = context.readVariable(name);
        if (variableValue === undefined)
          throw new ConfigError(`${context.file}: ${path}: expected the environment variable ${name} to be set`);
        // `collectConfigSecrets` collects the secrets of a store's address, so that messages can show the host.
        const isStoreAddress =
          STORE_ADDRESS_KEYS.has(path) && (!isSecretName(name) || /^[a-z]+:\/\//i.test(variableValue));
        if (looksLikePath(variableValue) || isStoreAddress) return variableValue;
        (isSecretName(name) ? context.secrets : context.nonSecretValues).add(variableValue);
        return variableValue;
      },
    );
  }
  if (Array.isArray(value)) return value.map((item, i) => expandVariables(item, context, `${path}[${i}]`));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [
        key,
        expandVariables(item, context, path === "" ? key : `${path}.${key}`),
      ]),
    );
  }
  return value;
}

function looksLikePath(value: string): boolean {
  return /^(~|\.{1,2})?\/|^[A-Za-z]:\\/.test(value) && !looksSecret(value);
}

/**
 * Collects secrets: values of secret keys, required headers, authentication headers, and values that look like keys.
 * `server.headers` are public response headers.
 */
export function collectConfigSecrets(config: unknown, secrets: Set<string>): void {
  const hasServerSection = isRecord(config) && isRecord(config["server"]);
  const privateConfig = hasServerSection
    ? { ...config, server: { ...(config["server"] as object), headers: {} } }
    : config;
  collectSecrets(
    isRecord(privateConfig) && isRecord(privateConfig["session"])
      ? { ...privateConfig, session: collectStoreSecrets(privateConfig["session"], secrets) }
      : privateConfig,
    secrets,
  );
}

/** Collects the credentials of the store's addresses. Messages can show the host. Returns the remaining options. */
function collectStoreSecrets(
  { url, pool, ...sessionOptions }: Record<string, unknown>,
  secrets: Set<string>,
): Record<string, unknown> {
  collectAddressSecrets(url, secrets);
  if (!isRecord(pool)) return { ...sessionOptions, pool };
  const { listen_url: listenUrl, ...poolOptions } = pool;
  collectAddressSecrets(listenUrl, secrets);
  return { ...sessionOptions, pool: poolOptions };
}

function collectAddressSecrets(url: unknown, secrets: Set<string>): void {
  if (typeof url !== "string" || url === "") return;
  // Some parsers reject a URL without a host, as it is used for a Unix socket.
  const fullUrl = url.replace(/^([a-z]+:\/\/[^/?#]*@)(?=[/?]|$)/i, "$1localhost");
  const [userInfoPrefix = ""] = /^[a-z]+:\/\/[^/?#]*@/i.exec(url) ?? [];
  // If an address cannot be parsed reliably, a part of the password could appear as the host. Treat the whole address
  // as
  // secret.
  if (!/^[a-z]+:\/\//i.test(url) || !URL.canParse(fullUrl) || (userInfoPrefix === "" && url.includes("@"))) {
    secrets.add(url);
    return;
  }
  const { password, searchParams } = new URL(fullUrl);
  const querySecrets = [...searchParams].flatMap(([name, value]) => (isSecretName(name) ? [value] : []));
  for (const secret of [userInfoPrefix, password, decodeUri(password), ...querySecrets])
    if (secret !== "") secrets.add(secret);
}

function collectSecrets(value: unknown, secrets: Set<string>, name = ""): void {
  if (typeof value === "string") {
    if (isSecretName(name) || looksSecret(value)) secrets.add(value);
    // If an address contains a password, the address is secret too.
    if (!value.includes("@") || !URL.canParse(value) || new URL(value).password === "") return;
    const { password } = new URL(value);
    secrets.add(value).add(password).add(decodeUri(password));
  } else if (Array.isArray(value)) {
    for (const item of value) collectSecrets(item, secrets, name);
  } else if (isRecord(value)) {
    for (const [key, item] of Object.entries(value)) {
      if (isRecord(item) && (key === "headers" || key === "required_headers")) {
        // All required headers are secret, because they grant access.
        for (const headerValue of key === "headers" ? headerSecrets(item) : Object.values(item))
          if (typeof headerValue === "string" && headerValue !== "")
            secrets.add(headerValue).add(headerValue.split(" ").at(-1) ?? headerValue);
      } else collectSecrets(item, secrets, isSecretName(name) ? name : key);
    }
  }
}
