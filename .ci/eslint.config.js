import path from "node:path";
import tseslint from "typescript-eslint";

const noDefaultExport = {
  selector: "ExportDefaultDeclaration",
  message: "Named exports only; an adapter's index.ts is the one place for a default export.",
};
/** Files of the build let out what a name means when all is evaluated (.ci/pack.mjs). */
const noMutableExport = {
  selector: "ExportNamedDeclaration > VariableDeclaration[kind!='const']",
  message: "export a const: what is assigned later is not seen by others in the build",
};

const cleaned = "nothing is made HTML of text; content/markdown.ts lets in what DOMPurify has made nodes of";
const noRawHtml = [
  "MemberExpression[property.name=/^(innerHTML|outerHTML|srcdoc|insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|parseFromString|write|writeln)$/]",
  "MemberExpression[property.value=/^(innerHTML|outerHTML|srcdoc|insertAdjacentHTML)$/]",
  "JSXAttribute[name.name=/^(dangerouslySetInnerHTML|srcDoc|srcdoc|innerHTML)$/]",
  "Property[key.name=/^(dangerouslySetInnerHTML|srcDoc|srcdoc|innerHTML)$/]",
  "Property[key.value=/^(dangerouslySetInnerHTML|srcDoc|srcdoc|innerHTML)$/]",
].map((selector) => ({ selector, message: cleaned }));

const allowAny = ["error", { allowThrowingAny: true, allowThrowingUnknown: true }];

export default tseslint.config(
  { ignores: ["dist/**", ".dist-*/**", "node_modules/**", "coverage/**"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
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
      "no-restricted-syntax": ["error", noDefaultExport, noMutableExport],
      "@typescript-eslint/consistent-type-exports": "error",
      "@typescript-eslint/consistent-type-imports": [
        "error",
        // `import("x")` as a type is how a module that is loaded late is spoken of.
        { fixStyle: "separate-type-imports", disallowTypeAnnotations: false },
      ],
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          // The runner itself waits for these.
          allowForKnownSafeCalls: [
            { from: "package", package: "node:test", name: ["test", "it", "describe", "suite", "before", "after"] },
          ],
        },
      ],
      "@typescript-eslint/no-import-type-side-effects": "error",
      // Style alone, and slow.
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
      // Ports are often objects of closures, which it cannot tell from methods.
      "@typescript-eslint/unbound-method": "off",
    },
  },
  {
    // A rule that is thrown by a signal's reason is somebody else's error, and must stay what it was.
    files: ["src/**/*.ts", "adapters/**/*.ts"],
    rules: {
      "@typescript-eslint/only-throw-error": allowAny,
      "@typescript-eslint/prefer-promise-reject-errors": allowAny,
    },
  },
  // Examples print what they do.
  { files: ["src/cli/main.ts", "examples/**/*.ts"], rules: { "no-console": "off" } },
  {
    // What others wrote is shown in the pages: as text, or as the nodes that one place lets in, which cleans it.
    files: ["adapters/web-console/app/**/*.ts", "adapters/web-console/app/**/*.tsx"],
    rules: { "no-restricted-syntax": ["error", noDefaultExport, noMutableExport, ...noRawHtml] },
  },
  { files: ["adapters/*/index.ts"], rules: { "no-restricted-syntax": ["error", noMutableExport] } },
  {
    files: ["test/**/*.ts", ".ci/**/*.ts"],
    rules: {
      "no-console": "off",
      // Bodies that a test fetched are `any` until it asserts what they are.
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
