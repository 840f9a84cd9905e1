import { checkSqliteDriver } from "../../helpers/sqlite-checks.js";

checkSqliteDriver("full");
