import path from "node:path";
import tseslint from "typescript-eslint";
import { plainLanguage } from "../test/helpers/plain-language.mjs";

const noDefaultExport = { selector: "ExportDefaultDeclaration", message: "only an adapter's index.ts has a default" };
const lostTimeout = "CallExpression[callee.property.name='any'] CallExpression[callee.property.name='timeout']";
const noLostTimeout = { selector: lostTimeout, message: "use createDeadline: Node 20 loses this timeout" };
/** Built files export the value that a name has after evaluation; later assignments are not visible (.ci/pack.mjs). */
const noMutableExport = {
  selector: "ExportNamedDeclaration > VariableDeclaration[kind!='const']",
  message: "export a const: importers in the build do not see a later assignment",
};

const noHtml = "do not create HTML from text; only content/markdown.ts adds nodes, which DOMPurify has sanitized";
const noRawHtml = [
  "MemberExpression[property.name=/^(innerHTML|outerHTML|srcdoc|insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|parseFromString|write|writeln)$/]",
  "MemberExpression[property.value=/^(innerHTML|outerHTML|srcdoc|insertAdjacentHTML)$/]",
  "JSXAttribute[name.name=/^(dangerouslySetInnerHTML|srcDoc|srcdoc|innerHTML)$/]",
  "Property[key.name=/^(dangerouslySetInnerHTML|srcDoc|srcdoc|innerHTML)$/]",
  "Property[key.value=/^(dangerouslySetInnerHTML|srcDoc|srcdoc|innerHTML)$/]",
].map((selector) => ({ selector, message: noHtml }));

const allowAny = ["error", { allowThrowingAny: true, allowThrowingUnknown: true }];

export default tseslint.config(
  { ignores: ["dist/**", ".dist-*/**", "node_modules/**", "coverage/**"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    plugins: { plain: plainLanguage },
    rules: { "plain/comments": "error", "plain/names": "error" },
  },

  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: path.resolve(import.meta.dirname, "..") },
    },
    rules: {
      eqeqeq: ["error", "always"],
      "no-console": "error",
      "no-control-regex": "error",
      "no-eval": "error",
      "no-new-func": "error",
      "no-restricted-syntax": ["error", noDefaultExport, noMutableExport, noLostTimeout],
      "no-useless-rename": "error",
      "@typescript-eslint/consistent-type-exports": "error",
      "@typescript-eslint/consistent-type-imports": [
        "error",
        // `import("x")` in a type position is how the code types modules that it loads lazily.
        { fixStyle: "separate-type-imports", disallowTypeAnnotations: false },
      ],
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          // The test runner awaits these calls.
          allowForKnownSafeCalls: [
            { from: "package", package: "node:test", name: ["test", "it", "describe", "suite", "before", "after"] },
          ],
        },
      ],
      "@typescript-eslint/no-import-type-side-effects": "error",
      // A matter of style only, and slow to check.
      "@typescript-eslint/no-unnecessary-type-assertion": "off",
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrors: "none" },
      ],
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: true, allow: [{ from: "lib", name: ["Error", "URL", "RegExp"] }] },
      ],
      "@typescript-eslint/return-await": ["error", "error-handling-correctness-only"],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      // Ports are often objects of closures, which the rule cannot distinguish from methods.
      "@typescript-eslint/unbound-method": "off",
    },
  },
  {
    // Rethrowing a signal's reason must keep the caller's value unchanged, even if it is not an Error.
    files: ["src/**/*.ts", "adapters/**/*.ts"],
    rules: {
      "@typescript-eslint/only-throw-error": allowAny,
      "@typescript-eslint/prefer-promise-reject-errors": allowAny,
    },
  },
  // Examples and the command line print their results.
  { files: ["src/cli/main.ts", "examples/**/*.ts"], rules: { "no-console": "off" } },
  {
    // Pages show untrusted text as plain text, or as nodes that content/markdown.ts has sanitized.
    files: ["adapters/web-console/app/**/*.ts", "adapters/web-console/app/**/*.tsx"],
    rules: { "no-restricted-syntax": ["error", noDefaultExport, noMutableExport, ...noRawHtml] },
  },
  { files: ["adapters/*/index.ts"], rules: { "no-restricted-syntax": ["error", noMutableExport] } },
  {
    files: ["test/**/*.ts", ".ci/**/*.ts"],
    rules: {
      "no-console": "off",
      // Response bodies in tests are `any` until the test asserts their shape.
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
      "@typescript-eslint/no-base-to-string": "off",
      "@typescript-eslint/restrict-template-expressions": "off",
      "@typescript-eslint/only-throw-error": "off",
      "@typescript-eslint/prefer-promise-reject-errors": "off",
    },
  },
);
