SELECT source, scope, count(*) FROM documents GROUP BY source, scope;
