/** Where the console is; below it are the files of its pages, and what a one-time link is made and used with. */
export const ADDRESS = "/console";
export const ASSETS = "/console/assets/";
export const LINKS = "/console/links";
export const LOGIN = "/console/login";

/** Headers of every answer: nothing is run or loaded but what the build made of this folder, and no page frames it. */
export const SECURITY: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};
