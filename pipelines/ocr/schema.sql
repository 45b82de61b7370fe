-- The tables that the pipeline `ocr` fills, and the search over them. They are the user's own: pgstage touches them only
-- through the statements in ocr.yaml. Can be run again at any time: psql -f schema.sql

begin;
set local client_min_messages = warning; -- no notice about what is there already

create schema if not exists ocr;

-- Decides which words are the same ("keys", "key"). After a change run this file, then
--     pgstage rerun ocr --all --from index --yes
create or replace function ocr.language() returns regconfig
language sql immutable parallel safe
return 'pg_catalog.english'::regconfig;

create table if not exists ocr.document (
    key        text collate "C" primary key, -- the task's key: the path below the source's folder
    version    bigint not null,              -- the task's version that these rows show
    indexed_at timestamptz not null default now()
);

create table if not exists ocr.page (
    document text collate "C" not null references ocr.document (key) on delete cascade,
    number   bigint not null,                -- from 1
    text     text not null,
    tsv      tsvector not null,
    primary key (document, number)
);

create index if not exists page_tsv on ocr.page using gin (tsv);

-- The pages that have all words of a query as people type it ("exact words", or, -without), best first.
create or replace function ocr.search(query text, max_pages integer default 10)
returns table (rank real, key text, page bigint, snippet text)
language sql stable parallel safe
begin atomic
    with best as (
        select p.document, p.number, p.text, ts_rank_cd(p.tsv, q.words, 1 | 32) as rank, q.words
        from websearch_to_tsquery(ocr.language(), search.query) as q (words)
        join ocr.page as p on p.tsv @@ q.words
        order by rank desc, p.document, p.number
        limit search.max_pages
    )
    select b.rank, b.document, b.number,
           regexp_replace(
               ts_headline(ocr.language(), b.text, b.words,
                           'StartSel=«, StopSel=», MaxFragments=2, MinWords=6, MaxWords=22, FragmentDelimiter=" … "'),
               '\s+', ' ', 'g')
    from best as b
    order by b.rank desc, b.document, b.number;
end;

commit;
