// The part of zod that koa-body uses to fill in default options. It validates nothing: body.ts passes constants.
const field = (fallback) => ({ optional: () => field(fallback), default: field, read: (value) => value ?? fallback });

export const z = {
  ...Object.fromEntries(["array", "boolean", "enum", "number", "string", "union"].map((type) => [type, () => field()])),
  object: (fields) => ({
    parse: (values) => Object.fromEntries(Object.entries(fields).map(([name, { read }]) => [name, read(values[name])])),
  }),
};
