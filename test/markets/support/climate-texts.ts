interface ClimateText {
  report: string;
  /** `DDHHMM`, optionally with a suffix such as `CCA`. */
  issued: string;
  /** `AUGUST 19 2026` */
  date: string;
  maximum?: string;
  minimum?: string;
  place?: string;
  /** The line that marks the values as those of an incomplete day. */
  valid?: string;
  period?: 'YESTERDAY' | 'TODAY';
}

/** Returns a Climatological Report (Daily) in the format that NWS offices use. */
export const climateText = ({
  report,
  issued,
  date,
  maximum = '78',
  minimum = '60',
  place = 'CENTRAL PARK NY',
  valid,
  period = 'YESTERDAY',
}: ClimateText): string => `
000
CDUS41 KOKX ${issued}
${report}

CLIMATE REPORT
NATIONAL WEATHER SERVICE NEW YORK, NY
244 AM EDT THU AUG 20 2026

...................................

...THE ${place} CLIMATE SUMMARY FOR ${date}...
${valid === undefined ? '' : `${valid}\n`}
CLIMATE NORMAL PERIOD: 1991 TO 2020
CLIMATE RECORD PERIOD: 1869 TO 2026

WEATHER ITEM   OBSERVED TIME   RECORD YEAR NORMAL DEPARTURE LAST
                VALUE   (LST)  VALUE       VALUE  FROM      YEAR
                                                  NORMAL
...................................................................
TEMPERATURE (F)
 ${period}
  MAXIMUM         ${maximum.padEnd(6)}3:53 PM  92    1978  75      3       91
  MINIMUM         ${minimum.padEnd(6)}4:42 AM  45    1972  56     -1       61
  AVERAGE         67                        65      2       76

PRECIPITATION (IN)
  ${period}        0.00          1.80 1939   0.14  -0.14     0.00
  MONTH TO DATE    2.11                      2.88  -0.77     4.21

THE ${place} CLIMATE NORMALS FOR TOMORROW
                         NORMAL    RECORD    YEAR
 MAXIMUM TEMPERATURE (F)   75        99      1983
 MINIMUM TEMPERATURE (F)   56        44      1970
`;
