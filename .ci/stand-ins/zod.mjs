// zod's defaults for koa-body. No validation: adapters/koa-http-api/body.ts passes only constants and checked limits.
const field = (fallback) => ({ optional: () => field(fallback), default: field, read: (value) => value ?? fallback });

export const z = {
  ...Object.fromEntries(["array", "boolean", "enum", "number", "string", "union"].map((type) => [type, () => field()])),
  object: (fields) => ({
    parse: (values) => Object.fromEntries(Object.entries(fields).map(([name, { read }]) => [name, read(values[name])])),
  }),
};
