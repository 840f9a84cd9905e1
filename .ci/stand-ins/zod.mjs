// The part of zod that koa-body uses to fill in default options. The options that body.ts passes are constants, so
// nothing is validated: an undefined field gets its default.
const field = (fallback) => ({ optional: () => field(fallback), default: field, read: (value) => value ?? fallback });

export const z = {
  ...Object.fromEntries(["array", "boolean", "enum", "number", "string", "union"].map((type) => [type, () => field()])),
  object: (fields) => ({
    parse: (values) => Object.fromEntries(Object.entries(fields).map(([name, { read }]) => [name, read(values[name])])),
  }),
};
