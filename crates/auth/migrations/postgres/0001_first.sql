-- Users, roles and zones. `login` is "zone/name", so that one look-up needs one column. Roles and
-- credentials of a user are JSON lists. `revision` counts the changes of a row.
CREATE TABLE stentor_user (
    login TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    zone TEXT COLLATE "C" NOT NULL,
    disabled BIGINT NOT NULL,
    roles TEXT NOT NULL,
    credentials TEXT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX stentor_user_zone ON stentor_user (zone);
-- `scope` is the zone whose users may have the role, or empty for all zones.
CREATE TABLE stentor_role (
    scope TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    rules TEXT NOT NULL,
    quotas TEXT NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE TABLE stentor_zone (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    connections BIGINT
);
-- Facts about this database, such as that it has had its first start.
CREATE TABLE stentor_fact (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
