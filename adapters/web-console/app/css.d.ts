/** The build bundles styles; modules only import them. */
declare module "*.css";
