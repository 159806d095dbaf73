"""The queries of Nexmark in Flink's dialect, q0 to q22 without q6 (which Flink cannot run) over one events table.

Each is an INSERT into a blackhole table, so that reading, the query and the changelog are measured, and no sink.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The columns of the source: an event is a person, an auction or a bid.
EVENTS = """
CREATE TEMPORARY TABLE events (
  event_type INT,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3),
    extra STRING>,
  `dateTime` AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ({options})
"""

VIEWS = (
    """CREATE TEMPORARY VIEW person AS SELECT person.id, person.name, person.emailAddress, person.creditCard,
    person.city, person.state, `dateTime`, person.extra FROM events WHERE event_type = 0""",
    """CREATE TEMPORARY VIEW auction AS SELECT auction.id, auction.itemName, auction.description, auction.initialBid,
    auction.reserve, `dateTime`, auction.expires, auction.seller, auction.category, auction.extra
    FROM events WHERE event_type = 1""",
    """CREATE TEMPORARY VIEW bid AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`,
    bid.extra FROM events WHERE event_type = 2""",
)


@dataclass(frozen=True)
class Query:
    """A query and the columns of its sink."""

    columns: str
    select: str
    append_only: bool = True

    def sink(self, name: str, connector: str) -> str:
        """Return the CREATE TABLE of the sink."""
        return f"CREATE TEMPORARY TABLE {name} ({self.columns}) WITH ('connector' = '{connector}')"


_BID = "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING"
_WIDE_BID = (
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING"
)
_RANKS = """count(*) AS total_bids,
  count(*) filter (where price < 10000) AS rank1_bids,
  count(*) filter (where price >= 10000 and price < 1000000) AS rank2_bids,
  count(*) filter (where price >= 1000000) AS rank3_bids"""
_DISTINCT = """count(distinct bidder) AS total_bidders,
  count(distinct bidder) filter (where price < 10000) AS rank1_bidders,
  count(distinct bidder) filter (where price >= 10000 and price < 1000000) AS rank2_bidders,
  count(distinct bidder) filter (where price >= 1000000) AS rank3_bidders,
  count(distinct auction) AS total_auctions,
  count(distinct auction) filter (where price < 10000) AS rank1_auctions,
  count(distinct auction) filter (where price >= 10000 and price < 1000000) AS rank2_auctions,
  count(distinct auction) filter (where price >= 1000000) AS rank3_auctions"""
_RANK_COLUMNS = "total_bids BIGINT, rank1_bids BIGINT, rank2_bids BIGINT, rank3_bids BIGINT"
_DISTINCT_COLUMNS = (
    "total_bidders BIGINT, rank1_bidders BIGINT, rank2_bidders BIGINT, rank3_bidders BIGINT,"
    " total_auctions BIGINT, rank1_auctions BIGINT, rank2_auctions BIGINT, rank3_auctions BIGINT"
)

QUERIES: dict[str, Query] = {
    "q0": Query(_BID, "SELECT auction, bidder, price, `dateTime`, extra FROM bid"),
    "q1": Query(
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), `dateTime` TIMESTAMP(3), extra STRING",
        "SELECT auction, bidder, 0.908 * price as price, `dateTime`, extra FROM bid",
    ),
    "q2": Query("auction BIGINT, price BIGINT", "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    "q3": Query(
        "name STRING, city STRING, state STRING, id BIGINT",
        """SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P on A.seller = P.id
        WHERE A.category = 10 and (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    ),
    "q4": Query(
        "id BIGINT, final BIGINT",
        """SELECT Q.category, AVG(Q.final) FROM (
          SELECT MAX(B.price) AS final, A.category FROM auction A, bid B
          WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
          GROUP BY A.id, A.category) Q GROUP BY Q.category""",
        append_only=False,
    ),
    "q5": Query(
        "auction BIGINT, num BIGINT",
        """SELECT AuctionBids.auction, AuctionBids.num FROM (
          SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
          FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
          GROUP BY auction, window_start, window_end) AS AuctionBids
        JOIN (
          SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime FROM (
            SELECT count(*) AS num, window_start AS starttime, window_end AS endtime
            FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end) AS CountBids
          GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
        ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
          AND AuctionBids.num >= MaxBids.maxn""",
    ),
    "q7": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING",
        """SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM bid B JOIN (
          SELECT MAX(price) AS maxprice, window_end as `dateTime`
          FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
          GROUP BY window_start, window_end) B1
        ON B.price = B1.maxprice
        WHERE B.`dateTime` BETWEEN B1.`dateTime` - INTERVAL '10' SECOND AND B1.`dateTime`""",
    ),
    "q8": Query(
        "id BIGINT, name STRING, stime TIMESTAMP(3)",
        """SELECT P.id, P.name, P.starttime FROM (
          SELECT id, name, window_start AS starttime, window_end AS endtime
          FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
          GROUP BY id, name, window_start, window_end) P
        JOIN (
          SELECT seller, window_start AS starttime, window_end AS endtime
          FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
          GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    ),
    "q9": Query(
        "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3),"
        " expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING, auction BIGINT, bidder BIGINT,"
        " price BIGINT, bid_dateTime TIMESTAMP(3), bid_extra STRING",
        """SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra, auction,
          bidder, price, bid_dateTime, bid_extra
        FROM (
          SELECT A.*, B.auction, B.bidder, B.price, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra,
            ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum
          FROM auction A, bid B
          WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires)
        WHERE rownum <= 1""",
        append_only=False,
    ),
    "q10": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING, dt STRING, hm STRING",
        """SELECT auction, bidder, price, `dateTime`, extra, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd'),
        DATE_FORMAT(`dateTime`, 'HH:mm') FROM bid""",
    ),
    "q11": Query(
        "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        """SELECT B.bidder, count(*) as bid_count, window_start, window_end
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) AS B
        GROUP BY B.bidder, window_start, window_end""",
    ),
    "q12": Query(
        "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        """SELECT bidder, count(*) as bid_count, window_start, window_end
        FROM TABLE(TUMBLE((SELECT *, PROCTIME() as p_time FROM bid), DESCRIPTOR(p_time), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    ),
    "q13": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), `value` STRING",
        """SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.`value`
        FROM (SELECT *, PROCTIME() as p_time FROM bid) B
        JOIN side_input FOR SYSTEM_TIME AS OF B.p_time AS S ON mod(B.auction, 10000) = S.key""",
    ),
    "q14": Query(
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bidTimeType STRING, `dateTime` TIMESTAMP(3),"
        " extra STRING, c_counts BIGINT",
        """SELECT auction, bidder, 0.908 * price as price,
          CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
            WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
          `dateTime`, extra, CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    "q15": Query(
        f"`day` STRING, {_RANK_COLUMNS}, {_DISTINCT_COLUMNS}",
        f"""SELECT DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
        append_only=False,
    ),
    "q16": Query(
        f"channel STRING, `day` STRING, `minute` STRING, {_RANK_COLUMNS}, {_DISTINCT_COLUMNS}",
        f"""SELECT channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`,
          max(DATE_FORMAT(`dateTime`, 'HH:mm')) as `minute`, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
        append_only=False,
    ),
    "q17": Query(
        f"auction BIGINT, `day` STRING, {_RANK_COLUMNS}, min_price BIGINT, max_price BIGINT, avg_price BIGINT,"
        " sum_price BIGINT",
        f"""SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`, {_RANKS},
          min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
        append_only=False,
    ),
    "q18": Query(
        _WIDE_BID,
        """SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number FROM bid)
        WHERE rank_number <= 1""",
        append_only=False,
    ),
    "q19": Query(
        f"{_WIDE_BID}, rank_number BIGINT",
        """SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
        WHERE rank_number <= 10""",
        append_only=False,
    ),
    "q20": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_dateTime TIMESTAMP(3),"
        " bid_extra STRING, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,"
        " auction_dateTime TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, auction_extra STRING",
        """SELECT auction, bidder, price, channel, url, B.`dateTime`, B.extra, itemName, description, initialBid,
          reserve, A.`dateTime`, expires, seller, category, A.extra
        FROM bid AS B INNER JOIN auction AS A on B.auction = A.id WHERE A.category = 10""",
    ),
    "q21": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING",
        """SELECT auction, bidder, price, channel,
          CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
            WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
            ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) is not null
          or lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    ),
    "q22": Query(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
        """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) as dir1, SPLIT_INDEX(url, '/', 4) as dir2,
        SPLIT_INDEX(url, '/', 5) as dir3 FROM bid""",
    ),
}
