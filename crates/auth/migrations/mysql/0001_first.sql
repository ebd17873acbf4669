-- Users, roles and zones. `login` is "zone/name", so that one look-up needs one column. Roles and
-- credentials of a user are JSON lists. `revision` counts the changes of a row.
CREATE TABLE IF NOT EXISTS stentor_user (
    login VARCHAR(511) NOT NULL PRIMARY KEY,
    zone VARCHAR(255) NOT NULL,
    disabled BIGINT NOT NULL,
    roles MEDIUMTEXT NOT NULL,
    credentials MEDIUMTEXT NOT NULL,
    revision BIGINT NOT NULL,
    INDEX stentor_user_zone (zone)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- `scope` is the zone whose users may have the role, or empty for all zones.
CREATE TABLE IF NOT EXISTS stentor_role (
    scope VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    rules MEDIUMTEXT NOT NULL,
    quotas TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS stentor_zone (
    name VARCHAR(255) NOT NULL PRIMARY KEY,
    connections BIGINT
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- Facts about this database, such as that it has had its first start.
CREATE TABLE IF NOT EXISTS stentor_fact (
    name VARCHAR(255) NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
