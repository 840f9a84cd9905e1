import { NO_POSTGRES } from "../../helpers/postgres.js";
import { testSeparation } from "../../helpers/user-server.js";

testSeparation("postgres", NO_POSTGRES);
