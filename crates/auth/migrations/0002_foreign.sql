-- Whether somebody else keeps the user: then the row only says what is different here, and is nobody
-- where they do not know the user any more.
ALTER TABLE stentor_user ADD COLUMN is_foreign BIGINT NOT NULL DEFAULT 0;
